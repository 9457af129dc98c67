"""Unique keys: every way to write rows is checked against the whole table, and only keys count."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import ConstraintViolation, InvalidInput
from lakeward.write.keys import index
from tests.behaviour.lakes import append, delete, ids, overwrite, unchanged
from tests.support.target import LakeTarget


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    made = shared_lake.create(
        name, {"id": "int64", "note": "string"}, constraints={"key": lw.Unique("id")}
    )
    append(shared_lake, name, {"id": [1, 2, 3], "note": ["a", "b", "c"]})
    return made


Write = Callable[[lw.Transaction, str], Any]

VIOLATIONS: dict[str, Write] = {
    "append": lambda tx, t: tx.append(t, {"id": [9, 3], "note": ["x", "y"]}),
    "append_twice": lambda tx, t: tx.append(t, {"id": [9, 9], "note": ["x", "y"]}),
    "two_appends": lambda tx, t: [tx.append(t, {"id": [9], "note": ["x"]}) for _ in range(2)],
    "overwrite": lambda tx, t: tx.overwrite(t, {"id": [9, 9], "note": ["x", "y"]}),
    "overwrite_where": lambda tx, t: tx.overwrite(
        t, {"id": [1], "note": ["b"]}, where="note = 'b'"
    ),
    "update": lambda tx, t: tx.update(t, set={"id": "1"}, where="id = 2"),
    "merge": lambda tx, t: tx.merge(
        t,
        {"id": [1], "note": ["new"]},
        on="target.note = source.note",
    ),
}


@pytest.mark.parametrize("write", VIOLATIONS.values(), ids=VIOLATIONS)
def test_rows_with_a_key_that_is_there_are_refused(
    shared_lake: lw.Lake, table: lw.Table, write: Write
) -> None:
    before = table.to_arrow()

    with pytest.raises(ConstraintViolation) as caught, shared_lake.transaction() as tx:
        write(tx, table.name)

    assert (caught.value.table, caught.value.constraint) == (table.name, "key")
    assert caught.value.count == 1
    assert table.version == 1
    assert table.to_arrow() == before


PASSING: dict[str, tuple[Write, list[int]]] = {
    "append": (lambda tx, t: tx.append(t, {"id": [4], "note": ["x"]}), [1, 2, 3, 4]),
    "delete_and_append": (
        lambda tx, t: (tx.delete(t, where="id = 2"), tx.append(t, {"id": [2], "note": ["x"]})),
        [1, 2, 3],
    ),
    "overwrite": (lambda tx, t: tx.overwrite(t, {"id": [1], "note": ["x"]}), [1]),
    "overwrite_where": (
        lambda tx, t: tx.overwrite(t, {"id": [2], "note": ["b"]}, where="note = 'b'"),
        [1, 2, 3],
    ),
    "move_all_keys": (lambda tx, t: tx.update(t, set={"id": "id + 1"}), [2, 3, 4]),
    "update_others": (lambda tx, t: tx.update(t, set={"note": "'x'"}), [1, 2, 3]),
    "upsert": (
        lambda tx, t: tx.merge(
            t,
            {"id": [3, 4], "note": ["x", "y"]},
            on=["id"],
        ),
        [1, 2, 3, 4],
    ),
}


@pytest.mark.parametrize(("write", "left"), PASSING.values(), ids=PASSING)
def test_keys_that_are_unique_after_the_transaction_pass(
    shared_lake: lw.Lake, table: lw.Table, write: Write, left: list[int]
) -> None:
    with shared_lake.transaction() as tx:
        write(tx, table.name)

    assert ids(shared_lake, table.name) == left


@pytest.mark.formats("delta")
def test_rows_that_were_deleted_in_place_do_not_count(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(
        name,
        {"id": "int64"},
        policy={"merge_on_read": True, "merge_on_read_fraction": 1},
        constraints={"key": lw.Unique("id")},
    )
    append(shared_lake, name, {"id": [1, 2, 3]})
    delete(shared_lake, name, "id = 2")

    append(shared_lake, name, {"id": [2]})
    with shared_lake.transaction() as tx:
        tx.update(name, set={"id": "id + 10"}, where="id = 1")
    for taken in (2, 3, 11):
        with pytest.raises(ConstraintViolation):
            append(shared_lake, name, {"id": [taken]})
    append(shared_lake, name, {"id": [1]})

    assert ids(shared_lake, name) == [1, 2, 3, 11]


def test_a_key_of_several_columns_counts_as_a_whole(shared_lake: lw.Lake, name: str) -> None:
    key = lw.Unique("region", "number")
    schema = {"region": "string", "number": "int32"}
    shared_lake.create(name, schema, partition_by=["region"], constraints={"key": key})
    append(shared_lake, name, {"region": ["a", "a", "b"], "number": [1, 2, 1]})

    append(shared_lake, name, {"region": ["b"], "number": [2]})
    with pytest.raises(ConstraintViolation) as caught:
        append(shared_lake, name, {"region": ["b", "c"], "number": [1, 1]})

    assert caught.value.sample == [{"region": "b", "number": 1}]


def test_keys_with_nulls_are_not_compared(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(
        name, {"a": "int64", "b": "string"}, constraints={"key": lw.Unique("a", "b")}
    )

    append(shared_lake, name, {"a": [1, 1, None, None], "b": [None, None, "x", None]})
    append(shared_lake, name, {"a": [1], "b": [None]})

    assert shared_lake.table(name).totals().rows == 5


@pytest.mark.parametrize(
    ("kind", "one", "same", "other"),
    [
        ("string", "ä" * 20, "ä" * 20, "ä" * 20 + "\0"),
        ("binary", b"", b"", b"\0"),
        ("date", dt.date(2024, 2, 29), dt.date(2024, 2, 29), dt.date(2024, 3, 1)),
        (
            "timestamp",
            dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            dt.datetime(2024, 1, 1, 1, tzinfo=dt.UTC),
        ),
        ("decimal(20,2)", decimal.Decimal("9.50"), decimal.Decimal("9.5"), decimal.Decimal(10)),
        ("double", 0.0, -0.0, 1.0),
        ("double", math.nan, -math.nan, math.inf),
        ("boolean", True, True, False),
    ],
)
def test_keys_of_every_type_are_compared_by_value(
    shared_lake: lw.Lake, name: str, kind: str, one: Any, same: Any, other: Any
) -> None:
    shared_lake.create(name, {"k": kind}, constraints={"key": lw.Unique("k")})
    append(shared_lake, name, [{"k": one}])

    with pytest.raises(ConstraintViolation):
        append(shared_lake, name, [{"k": same}])
    append(shared_lake, name, [{"k": other}])

    assert shared_lake.table(name).totals().rows == 2


def test_a_clone_has_the_key(
    shared_lake: lw.Lake, table: lw.Table, new_name: Callable[[], str]
) -> None:
    copy = shared_lake.clone(table.name, new_name())
    with pytest.raises(ConstraintViolation):
        append(shared_lake, copy.name, {"id": [1], "note": ["x"]})
    append(shared_lake, copy.name, {"id": [4], "note": ["x"]})

    assert ids(shared_lake, copy.name) == [1, 2, 3, 4]


def test_a_sink_is_refused_a_key_that_is_there(shared_lake: lw.Lake, table: lw.Table) -> None:
    with shared_lake.sink(table.name, writer_id="w") as sink:
        sink.write(pa.table({"id": [3], "note": ["again"]}))
        with pytest.raises(ConstraintViolation):
            sink.commit_epoch(1)
        sink.write(pa.table({"id": [4], "note": ["new"]}))
        sink.commit_epoch(1)

    assert ids(shared_lake, table.name) == [1, 2, 3, 4]
    assert [v.constraint for v in shared_lake.violations(table=table.name)] == ["key"]


@pytest.mark.formats("delta")
def test_a_named_branch_is_checked_when_it_is_published(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    branch = shared_lake.branch("trial", tables=[table.name])
    place = branch.table(table.name).location
    write_deltalake(place, pa.table({"id": [4, 3], "note": ["x", "y"]}), mode="append")

    with pytest.raises(ConstraintViolation):
        branch.publish()
    branch.drop()
    branch = shared_lake.branch("trial", tables=[table.name])
    place = branch.table(table.name).location
    write_deltalake(place, pa.table({"id": [4], "note": ["x"]}), mode="append")
    branch.publish()

    assert ids(shared_lake, table.name) == [1, 2, 3, 4]


@pytest.mark.formats("delta")
def test_an_open_table_is_checked_too(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"}, guard=False, constraints={"key": lw.Unique("id")})
    append(shared_lake, name, {"id": [1]})

    with pytest.raises(ConstraintViolation):
        append(shared_lake, name, {"id": [1]})


@pytest.mark.local
def test_the_index_is_kept_as_files_and_rebuilt_when_they_are_lost_or_damaged(
    lake_target: LakeTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_FEW_ROWS", 3)
    monkeypatch.setattr(index, "_FEW_FILES", 2)
    with lake_target.open() as lake:
        table = lake.create("t", {"id": "int64"}, constraints={"key": lw.Unique("id")})
        for start in range(0, 40, 4):
            append(lake, "t", {"id": [start + 17 * n % 41 * 100 for n in range(4)]})
        overwrite(lake, "t", {"id": [5, 5000, 7, -9]})
        kept = Path(table.location.removeprefix("file://")) / index.DIRECTORY

    def check() -> None:
        with lake_target.open() as lake:
            with pytest.raises(ConstraintViolation):
                append(lake, "t", {"id": [6, 4999, 7]})
            append(lake, "t", {"id": [0, 4]})
            delete(lake, "t", "id = 0 or id = 4")

    assert list(kept.iterdir())
    check()
    for file in kept.iterdir():
        file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    check()
    for file in kept.iterdir():
        file.unlink()
    check()


def test_the_key_is_an_ordinary_property_for_others(table: lw.Table) -> None:
    assert table.definition.properties["lakeward.unique.key"] == (
        '{"on_violation":"fail","columns":["id"]}'
    )


@pytest.mark.parametrize(
    ("constraints", "wanted"),
    [
        ({"key": lw.Unique("nothing")}, "nothing"),
        ({"key": lw.Unique("parts")}, "cannot be in a key"),
        ({"key": 7}, "lw.Unique"),
        ({"key": lw.Unique("id"), "KEY": "id > 0"}, "Two constraints"),
    ],
)
@pytest.mark.before_the_store
def test_a_key_that_cannot_be_is_refused(
    shared_lake: lw.Lake, name: str, constraints: Any, wanted: str
) -> None:
    schema = {"id": "int64", "parts": "list<int64>"}
    with unchanged(shared_lake), pytest.raises(InvalidInput, match=wanted):
        shared_lake.create(name, schema, constraints=constraints)


@pytest.mark.before_the_store
def test_a_key_needs_columns_and_a_known_reaction() -> None:
    for make in (
        lambda: lw.Unique(),
        lambda: lw.Unique("a", "a"),
        lambda: lw.Unique("a", on_violation="ignore"),
        lambda: lw.ForeignKey("a", "b", references="t", key="a"),
    ):
        with pytest.raises(InvalidInput):
            make()


@pytest.mark.before_the_store
def test_constraints_are_not_set_as_properties(shared_lake: lw.Lake, name: str) -> None:
    with pytest.raises(InvalidInput, match="not set by hand"):
        shared_lake.create(name, {"id": "int64"}, properties={"lakeward.unique.k": "{}"})


def test_a_failed_append_is_listed_among_the_violations(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    with pytest.raises(ConstraintViolation), shared_lake.transaction() as tx:
        tx.append(table.name, pa.table({"id": [3, 1, 8], "note": ["x", "y", "z"]}))

    (found,) = shared_lake.violations(table=table.name)

    assert (found.table, found.constraint, found.action) == (table.name, "key", "fail")
    assert (found.count, found.sample) == (2, ({"id": 3}, {"id": 1}))
    assert (found.transaction_id, found.pipeline) == (tx.transaction_id, None)
