"""What pyiceberg commits to the lake's Iceberg tables: seen, read, and written upon."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType

import lakeward as lw
from lakeward.errors import Conflict
from tests.behaviour.iceberg.strangers import Stranger, agree, every_version
from tests.behaviour.lakes import append, delete, ids, overwrite
from tests.support.tables import table_of

_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32()),
        pa.field("name", pa.string()),
        pa.field("day", pa.date32()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("parts", pa.struct([("n", pa.int64()), ("tags", pa.list_(pa.string()))])),
    ]
)


def _rows(*numbers: int) -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "name": f"name {n}",
            "day": date(1969, 12, 30 + n % 2),
            "price": f"-{n}.50",
            "parts": {"n": n, "tags": ["a", None]},
        }
        for n in numbers
    ]


def _arrow(*numbers: int) -> pa.Table:
    rows = _rows(*numbers)
    columns = {n: [r[n] for r in rows] for n in _SCHEMA.names}
    columns["price"] = pa.array(columns["price"]).cast(pa.decimal128(10, 2)).to_pylist()
    return pa.table(columns, _SCHEMA)


_TABLE = table_of(_SCHEMA).options(format="iceberg").rows(_arrow(1, 2, 3), _arrow(4, 5))
"""Three versions of ours: empty, three rows, five rows."""


def _append(theirs: Any) -> None:
    theirs.append(_arrow(6))


def _overwrite(theirs: Any) -> None:
    theirs.overwrite(_arrow(7, 8))


def _overwrite_some(theirs: Any) -> None:
    theirs.overwrite(_arrow(9), overwrite_filter="id = 2")


def _delete_some(theirs: Any) -> None:
    theirs.delete("id = 4")


def _delete_all(theirs: Any) -> None:
    theirs.delete()


def _upsert(theirs: Any) -> None:
    rows = _arrow(3, 10).set_column(1, "name", pa.array(["changed", "new"]))
    theirs.upsert(rows, join_cols=["id"])


def _add_column(theirs: Any) -> None:
    with theirs.update_schema() as update:
        update.add_column("extra", LongType())


def _add_nested(theirs: Any) -> None:
    with theirs.update_schema() as update:
        update.add_column(("parts", "more"), StringType())


def _add_struct(theirs: Any) -> None:
    with theirs.update_schema() as update:
        update.add_column("pair", StructType(NestedField(100, "a", LongType())))


def _rename_column(theirs: Any) -> None:
    with theirs.update_schema() as update:
        update.rename_column("name", "title")


def _rename_nested(theirs: Any) -> None:
    with theirs.update_schema() as update:
        update.rename_column("parts.n", "number")


def _swap_names(theirs: Any) -> None:
    with theirs.update_schema() as update:
        update.rename_column("name", "other")
    with theirs.update_schema() as update:
        update.add_column("name", StringType())


def _drop_column(theirs: Any) -> None:
    with theirs.update_schema() as update:
        update.delete_column("day")


def _widen(theirs: Any) -> None:
    with theirs.update_schema() as update:
        update.update_column("id", LongType())


def _reorder(theirs: Any) -> None:
    with theirs.update_schema() as update:
        update.move_first("price")


def _set_properties(theirs: Any) -> None:
    with theirs.transaction() as transaction:
        transaction.set_properties(owner="them", comment="theirs")


def _rollback(theirs: Any) -> None:
    first = theirs.history()[0].snapshot_id
    theirs.manage_snapshots().rollback_to_snapshot(first).commit()


def _partition(theirs: Any) -> None:
    with theirs.update_spec() as update:
        update.add_field("day", IdentityTransform())
        update.add_field("id", BucketTransform(4), "id_bucket")


def _everything_at_once(theirs: Any) -> None:
    """Several commits, of which the lake hears only after the last."""
    _append(theirs)
    _rename_column(theirs)
    columns = ["title" if n == "name" else n for n in _SCHEMA.names]
    theirs.append(_arrow(11).rename_columns(columns))
    _set_properties(theirs)
    _rollback(theirs)
    _drop_column(theirs)


_CHANGES: dict[str, tuple[Callable[[Any], None], list[str]]] = {
    "append": (_append, ["APPEND"]),
    "overwrite": (_overwrite, ["APPEND", "DELETE"]),
    "overwrite some": (_overwrite_some, ["APPEND", "OVERWRITE"]),
    "delete some": (_delete_some, ["OVERWRITE"]),
    "delete all": (_delete_all, ["DELETE"]),
    "upsert": (_upsert, ["APPEND", "APPEND", "OVERWRITE"]),
    "add column": (_add_column, ["SET TABLE"]),
    "add nested": (_add_nested, ["SET TABLE"]),
    "add struct": (_add_struct, ["SET TABLE"]),
    "rename column": (_rename_column, ["SET TABLE"]),
    "rename nested": (_rename_nested, ["SET TABLE"]),
    "swap names": (_swap_names, ["SET TABLE"]),
    "drop column": (_drop_column, ["SET TABLE"]),
    "widen": (_widen, ["SET TABLE"]),
    "reorder": (_reorder, ["SET TABLE"]),
    "properties": (_set_properties, ["SET TABLE"]),
    "rollback": (_rollback, ["ROLLBACK"]),
    "partition": (_partition, ["SET TABLE"]),
    "everything": (_everything_at_once, ["SET TABLE", "ROLLBACK", "APPEND", "APPEND"]),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_a_foreign_commit_is_seen_read_and_written_upon(
    one_lake: lw.Lake, one_stranger: Stranger, name: str, change: str
) -> None:
    _check(one_lake, one_stranger, name, *_CHANGES[change])


@pytest.mark.parametrize("change", ["upsert", "everything"])
def test_foreign_commits_are_seen_on_either_store(
    lake: lw.Lake, stranger: Stranger, name: str, change: str
) -> None:
    _check(lake, stranger, name, *_CHANGES[change])


def test_a_foreign_schema_of_a_commit_that_failed_is_not_kept_in_memory(
    lake: lw.Lake, stranger: Stranger, name: str
) -> None:
    table = lake.create(name, {"id": "int64"}, format="iceberg")
    tx = lake.transaction()
    tx.append(name, [{"id": 1}])
    with stranger.table(name).update_schema() as update:
        update.add_column("extra", LongType())

    def refuse(_: Any) -> None:
        what = "refused after the foreign schema was recorded in the session"
        raise Conflict(what)

    tx.on_ratify(refuse)
    with pytest.raises(Conflict, match="refused"):
        tx.commit()
    with stranger.table(name).update_schema() as update:
        update.rename_column("extra", "amount")

    assert table.schema.names == ["id", "amount"]
    append(lake, name, [{"id": 2, "amount": 20}])
    assert stranger.rows(name).to_pylist() == [{"id": 2, "amount": 20}]


def _check(
    lake: lw.Lake,
    stranger: Stranger,
    name: str,
    act: Callable[[Any], None],
    operations: list[str],
) -> None:
    table = _TABLE.make(lake, name)
    before = [table.at(version=v).to_arrow() for v in range(3)]

    act(stranger.table(name))

    history = table.history()
    assert [v.operation for v in history[:-3]] == operations
    assert all(v.adopted for v in history[:-3])
    assert [v.version for v in history] == list(range(len(history) - 1, -1, -1))
    agree(stranger, table)
    _selects_alike(table)
    # What was there before is there still, under the names that it had.
    assert [table.at(version=v).to_arrow() for v in range(3)] == before

    append(lake, name, _like(table))
    assert 100 in ids(lake, name)
    delete(lake, name, "id = 5")
    assert 5 not in ids(lake, name)
    _selects_alike(table)
    agree(stranger, table)
    with lake.transaction() as tx:
        assert 100 in tx.read(name)["id"].to_pylist()
        tx.overwrite(name, _like(table), where="id < 4 OR id = 100")
    agree(stranger, table)
    overwrite(lake, name, _like(table))
    assert agree(stranger, table) == 1
    versions = every_version(table)
    assert versions[:3] == [[], [1, 2, 3], [1, 2, 3, 4, 5]]
    assert versions[-1] == [100]


def _selects_alike(table: lw.Table) -> None:
    """Planning by index and statistics loses no row, whatever columns and files went through."""
    for row in table.to_arrow().to_pylist():
        for column in ("id", "day", "price", "title", "name"):
            if row.get(column) is not None:
                value = row[column]
                where = f"{column} = {value!r}" if column != "day" else f"day = '{value}'"
                where = where if column != "price" else f"price = {value}"
                assert row["id"] in table.to_arrow(where=where)["id"].to_pylist(), where


def _like(table: lw.Table) -> pa.Table:
    """One row of the table as it is now, all null but its id."""
    return pa.Table.from_pylist([{"id": 100}], table.schema.to_arrow())


def test_a_dropped_table_comes_back_with_what_others_committed(
    lake: lw.Lake, stranger: Stranger
) -> None:
    lake.create("t", "id int64", format="iceberg")
    append(lake, "t", [{"id": 1}])
    stranger.append("t", [{"id": 2}])

    lake.drop("t")
    lake.undrop("t")

    assert ids(lake, "t") == [1, 2]
    assert sorted(stranger.rows("t")["id"].to_pylist()) == [1, 2]


def test_a_migration_of_a_table_has_what_others_committed(
    lake: lw.Lake, stranger: Stranger
) -> None:
    lake.create("t", "id int64", format="iceberg")
    append(lake, "t", [{"id": 1}])
    stranger.append("t", [{"id": 2}])
    assert lake.migrate("t", "delta", format="delta", mode="copy").is_verified
    stranger.table("t").delete("id = 1")
    assert lake.migrate("t", "later", format="delta", mode="copy").is_verified

    assert ids(lake, "delta") == [1, 2]
    assert ids(lake, "later") == [2]
