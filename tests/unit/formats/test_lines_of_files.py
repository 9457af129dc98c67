from __future__ import annotations

import pytest

from lakeward.formats.delta.columns import absolute_adds, adds_of
from lakeward.model.file import LINE_SEPARATOR, Lines
from lakeward.model.schema import Schema

SCHEMA = Schema.of({"id": "int64", "day": "string"})


def line(path: str, partition: str = "", vector: str = "", extra: str = "") -> str:
    stats = '{"min":{"1":3},"max":{"1":4},"nulls":{"1":0}}'
    return LINE_SEPARATOR.join([path, "10", "2", "77", partition, stats, vector, extra])


def lines_of(lines: list[str]) -> Lines:
    return Lines("\n".join(lines), len(lines))


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("a/b.parquet", "file:///t/a/b.parquet"),
        ("with space", "file:///t/with%20space"),
        ("of\ntwo lines", "file:///t/of%0Atwo%20lines"),
        ("\nof\n\nmany\n", "file:///t/%0Aof%0A%0Amany%0A"),
        ("of\rtwo", "file:///t/of%0Dtwo"),
        (f"with{LINE_SEPARATOR}separator", "file:///t/with%1Fseparator"),
        ('with "quote', "file:///t/with%20%22quote"),
        ("/elsewhere/c", "file:///elsewhere/c"),
    ],
)
def test_a_path_is_read_from_its_line_whatever_is_in_it(path: str, named: str) -> None:
    lines = [line("plain"), line(path), line("last")]

    found = absolute_adds(lines_of(lines), SCHEMA, "/t", as_spark=False).to_pylist()

    assert [f["path"] for f in found] == ["file:///t/plain", named, "file:///t/last"]
    assert {(f["size"], f["modificationTime"]) for f in found} == {(10, 77)}
    assert {f["stats"] for f in found} == {
        '{"numRecords":2,"minValues":{"id":3},"maxValues":{"id":4},"nullCount":{"id":0}}'
    }


def test_files_of_partitions_and_files_of_none_stand_side_by_side() -> None:
    lines = [line("a"), line("b", partition='{"2":"monday"}'), line("c", partition='{"2":null}')]

    found = absolute_adds(lines_of(lines), SCHEMA, "/t", as_spark=False).to_pylist()

    assert [f["partitionValues"] for f in found] == [[], [("day", "monday")], [("day", None)]]


def test_files_of_a_log_of_their_own_are_spelled_as_it_spells_them() -> None:
    vector = '{"storageType":"u","pathOrInlineDv":"x","offset":1,"sizeInBytes":9,"cardinality":1}'
    adopted = '{"path":"its%20own","tags":{"made":"by hand"},"baseRowId":7}'
    lines = [
        line("plain"),
        line("with space", vector=vector),
        line("its own", extra=adopted),
        line("other", extra='{"baseRowId":9}'),
    ]

    found = adds_of(lines_of(lines), SCHEMA).to_pylist()

    assert [f["path"] for f in found] == ["plain", "with%20space", "its%20own", "other"]
    assert [f["path"] for f in adds_of(lines_of(lines[:1]), SCHEMA).to_pylist()] == ["plain"]
    assert found[1]["deletionVector"]["pathOrInlineDv"] == "x"
    assert "tightBounds" in found[1]["stats"]
    assert "tightBounds" not in found[0]["stats"]
    assert [f["baseRowId"] for f in found] == [None, None, 7, 9]
    assert found[2]["tags"] == [("made", "by hand")]
