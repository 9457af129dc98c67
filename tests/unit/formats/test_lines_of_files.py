from __future__ import annotations

import pytest

from lakeward.formats.delta.columns import absolute_adds
from lakeward.model.file import LINE_SEPARATOR
from lakeward.model.schema import Schema

SCHEMA = Schema.of({"id": "int64", "day": "string"})


def line(path: str, partition: str = "", vector: str = "") -> str:
    stats = '{"min":{"1":3},"max":{"1":4},"nulls":{"1":0}}'
    return LINE_SEPARATOR.join([path, "10", "2", "77", partition, stats, vector, ""])


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("a/b.parquet", "file:///t/a/b.parquet"),
        ("with space", "file:///t/with%20space"),
        ("of\ntwo lines", "file:///t/of%0Atwo%20lines"),
        ("of\rtwo", "file:///t/of%0Dtwo"),
        (f"with{LINE_SEPARATOR}separator", "file:///t/with%1Fseparator"),
        ('with "quote', "file:///t/with%20%22quote"),
        ("/elsewhere/c", "file:///elsewhere/c"),
    ],
)
def test_a_path_is_read_from_its_line_whatever_is_in_it(path: str, named: str) -> None:
    lines = [line("plain"), line(path), line("last")]

    found = absolute_adds(lines, SCHEMA, "/t", as_spark=False).to_pylist()

    assert [f["path"] for f in found] == ["file:///t/plain", named, "file:///t/last"]
    assert {(f["size"], f["modificationTime"]) for f in found} == {(10, 77)}
    assert {f["stats"] for f in found} == {
        '{"numRecords":2,"minValues":{"id":3},"maxValues":{"id":4},"nullCount":{"id":0}}'
    }


def test_files_of_partitions_and_files_of_none_stand_side_by_side() -> None:
    lines = [line("a"), line("b", partition='{"2":"monday"}'), line("c", partition='{"2":null}')]

    found = absolute_adds(lines, SCHEMA, "/t", as_spark=False).to_pylist()

    assert [f["partitionValues"] for f in found] == [[], [("day", "monday")], [("day", None)]]
