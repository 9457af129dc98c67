"""What an epoch's rows do to the table: they are added, or take the place of their partitions."""

from __future__ import annotations

import datetime as dt

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, UnsupportedFeature
from tests.behaviour.lakes import append, column, ids, unchanged

SCHEMA = {"id": "int64", "part": "string"}


def rows(part: str | None, *numbers: int) -> list[dict[str, object]]:
    return [{"id": n, "part": part} for n in numbers]


def test_rows_replace_the_partitions_that_they_are_in(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, SCHEMA, partition_by=["part"])
    append(shared_lake, name, rows("a", 1, 2) + rows("b", 3) + rows(None, 4))
    with shared_lake.sink(name, writer_id="w", mode="overwrite", flush_rows=1) as sink:
        sink.write(rows("a", 10))
        sink.write(rows("a", 11))
        sink.commit_epoch(1)
        assert ids(shared_lake, name) == [3, 4, 10, 11]
        sink.write(rows(None, 40))
        sink.write(rows("c", 50))
        sink.commit_epoch(2)
    assert ids(shared_lake, name) == [3, 10, 11, 40, 50]


def test_rows_replace_hidden_and_generated_partitions(shared_lake: lw.Lake, name: str) -> None:
    def at(day: int, *numbers: int) -> list[dict[str, object]]:
        moment = dt.datetime(2024, 5, day, 7, tzinfo=dt.UTC)
        return [{"id": n, "ts": moment} for n in numbers]

    shared_lake.create(
        name, {"id": "int64", "ts": "timestamp"}, partition_by=["day(ts)", "bucket(4, id)"]
    )
    append(shared_lake, name, at(1, 1, 2, 3, 4, 5, 6) + at(2, 7))
    with shared_lake.sink(name, writer_id="w", mode="overwrite") as sink:
        sink.write(at(1, 1))
        sink.commit_epoch(1)
    left = ids(shared_lake, name)
    assert 7 in left
    assert 1 in left
    assert len(left) < 7


def test_a_table_without_partitions_is_replaced_as_a_whole(shared_lake: lw.Lake, name: str) -> None:
    with shared_lake.sink(name, writer_id="w", mode="overwrite", schema=SCHEMA) as sink:
        for epoch in (1, 2):
            sink.write(rows("a", epoch))
            sink.commit_epoch(epoch)
        assert ids(shared_lake, name) == [2]
        sink.commit_epoch(3)
    assert ids(shared_lake, name) == [2]


def test_rows_that_others_add_meanwhile_are_replaced_too(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, SCHEMA, partition_by=["part"])
    with shared_lake.sink(name, writer_id="w", mode="overwrite", flush_rows=1) as sink:
        sink.write(rows("a", 1))
        append(shared_lake, name, rows("a", 2) + rows("b", 3))
        sink.commit_epoch(1)
    assert ids(shared_lake, name) == [1, 3]


def test_rows_are_split_by_partition(shared_lake: lw.Lake, name: str) -> None:
    with shared_lake.sink(name, writer_id="w", schema=SCHEMA, partition_by=["part"]) as sink:
        sink.write(rows("a", 1) + rows("b", 2))
        sink.write(rows("a", 3))
        sink.commit_epoch(1)
    found = shared_lake.table(name)
    assert len(found.files()) == 2
    assert column(found.to_arrow(where="part = 'a'")) == [1, 3]


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"mode": "append", "key": ["id"]}, InvalidInput),
        ({"mode": "sideways"}, InvalidInput),
        ({"writer_id": ""}, InvalidInput),
        ({"threads": 0}, InvalidInput),
        ({"flush_rows": 0}, InvalidInput),
        ({"max_bytes": -1}, InvalidInput),
        ({"flush_seconds": -1}, InvalidInput),
        ({"gaps": "yes"}, InvalidInput),
    ],
)
def test_what_makes_no_sense_is_refused(
    shared_lake: lw.Lake, name: str, options: dict[str, object], kind: type[Exception]
) -> None:
    shared_lake.create(name, SCHEMA)
    with unchanged(shared_lake), pytest.raises(kind):
        shared_lake.sink(name, **{"writer_id": "w", **options})  # type: ignore[arg-type]


def test_a_table_that_only_grows_is_not_overwritten(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, SCHEMA, policy={"append_only": True})
    with unchanged(shared_lake), pytest.raises(UnsupportedFeature):
        shared_lake.sink(name, writer_id="w", mode="overwrite")
