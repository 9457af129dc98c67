"""Columns are found by the field ids in each file, whatever the metadata still tells of old names.

The rows that are expected are computed here from the rows that were written, so a reader that makes
the same mistake as ours does not count as a witness.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

import lakeward as lw
from lakeward.errors import CorruptTable
from tests.behaviour.iceberg.strangers import Stranger
from tests.behaviour.iceberg.theirs import their_catalog
from tests.behaviour.lakes import append, delete, unchanged
from tests.support.expiry import expire_metadata
from tests.support.foreign_files import append_file, numbered

_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "a", StringType(), required=False),
    NestedField(3, "b", StringType(), required=False),
    NestedField(4, "n", IntegerType(), required=False),
    NestedField(5, "f", FloatType(), required=False),
    NestedField(6, "d", DecimalType(5, 2), required=False),
    NestedField(
        7,
        "s",
        StructType(
            NestedField(20, "x", IntegerType(), required=False),
            NestedField(21, "y", StringType(), required=False),
        ),
        required=False,
    ),
    NestedField(
        8,
        "l",
        ListType(
            22,
            StructType(
                NestedField(23, "p", IntegerType(), required=False),
                NestedField(24, "q", StringType(), required=False),
            ),
            element_required=False,
        ),
        required=False,
    ),
    NestedField(
        9,
        "m",
        MapType(
            25,
            StringType(),
            26,
            StructType(NestedField(27, "v", IntegerType(), required=False)),
            value_required=False,
        ),
        required=False,
    ),
)


def _old_row(number: int) -> dict[str, Any]:
    """A row as it was written, with nulls at every depth among them."""
    return {
        "id": number,
        "a": None if number % 5 == 4 else f"a{number}",
        "b": f"b{number}",
        "n": number * 10,
        "f": number / 2,
        "d": number,
        "s": None if number % 4 == 3 else {"x": number, "y": None if number == 1 else f"y{number}"},
        "l": [None, [], [{"p": number, "q": f"q{number}"}, None]][number % 3],
        "m": [[("k", {"v": number})], None, []][number % 3],
    }


Row = dict[str, Any]


@dataclass(frozen=True)
class _Change:
    """A change of columns, and what becomes of a row that was written before."""

    act: Callable[[Any], None]
    row: Callable[[Row], Row]


def _rename(**names: str) -> Callable[[Any], None]:
    def act(update: Any) -> None:
        for old, new in names.items():
            update.rename_column(old.replace("__", "."), new)

    return act


def _renamed(row: Row, **names: str) -> Row:
    return {names.get(k, k): v for k, v in row.items()}


def _struct_renamed(row: Row) -> Row:
    found = row["s"]
    return {**row, "s": found and {"z": found["x"], "y": found["y"]}}


def _struct_extended(row: Row) -> Row:
    found = row["s"]
    return {**row, "s": found and {**found, "more": None}}


def _list_renamed(row: Row) -> Row:
    found = row["l"]
    return {
        **row,
        "l": None if found is None else [e and {"p": e["p"], "r": e["q"]} for e in found],
    }


def _map_renamed(row: Row) -> Row:
    found = row["m"]
    return {**row, "m": None if found is None else [(k, {"w": v["v"]}) for k, v in found]}


def _widen(update: Any) -> None:
    update.update_column("n", LongType())
    update.update_column("f", DoubleType())
    update.update_column("d", DecimalType(12, 2))
    update.update_column("s.x", LongType())


def _reorder(update: Any) -> None:
    update.move_first("s")
    update.move_after("a", "m")


_CHANGES = {
    "renamed": [_Change(_rename(a="title"), lambda r: _renamed(r, a="title"))],
    "swapped": [
        _Change(_rename(a="tmp"), lambda r: _renamed(r, a="tmp")),
        _Change(_rename(b="a"), lambda r: _renamed(r, b="a")),
        _Change(_rename(tmp="b"), lambda r: _renamed(r, tmp="b")),
    ],
    "added again": [
        _Change(lambda u: u.delete_column("a"), lambda r: {k: v for k, v in r.items() if k != "a"}),
        _Change(lambda u: u.add_column("a", StringType()), lambda r: {**r, "a": None}),
    ],
    "renamed in a struct": [_Change(_rename(s__x="z"), _struct_renamed)],
    "added in a struct": [
        _Change(lambda u: u.add_column(("s", "more"), StringType()), _struct_extended)
    ],
    "renamed in a list": [_Change(_rename(l__q="r"), _list_renamed)],
    "renamed in a map": [_Change(_rename(m__v="w"), _map_renamed)],
    "widened": [_Change(_widen, dict)],
    "reordered": [_Change(_reorder, dict)],
    "spelled unusually": [_Change(_rename(a="a.b-c d"), lambda r: _renamed(r, a="a.b-c d"))],
}


def _rows(table: pa.Table) -> list[Row]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def _expected(changes: list[_Change], row: Row) -> Row:
    for change in changes:
        row = change.row(row)
    return {k: v if k != "d" else _decimal(v) for k, v in row.items()}


def _decimal(value: Any) -> Any:
    return pa.scalar(value, pa.decimal128(12, 2)).as_py()


def _evolved(catalog: Any, changes: list[_Change], **options: Any) -> tuple[Any, list[Row]]:
    """A table whose files of before the changes are live, and its rows."""
    catalog.create_namespace_if_not_exists("shop")
    made = catalog.create_table("shop.evolved", _SCHEMA, **options)
    before = [_old_row(n) for n in range(6)]
    _append(made, before[:4], partitioned=bool(options))
    _append(made, before[4:], partitioned=bool(options))
    for change in changes:
        with made.update_schema() as update:
            change.act(update)
    expected = [_expected(changes, r) for r in before]
    new = {**_expected(changes, _old_row(0)), "id": 100}
    _append(made, [new], partitioned=bool(options))
    expire_metadata(made)
    return made, [*expected, new]


def _append(table: Any, rows: list[Row], *, partitioned: bool) -> None:
    schema = table.schema().as_arrow()
    groups = [[r] for r in rows] if partitioned else [rows]
    for group in groups:
        values = [group[0]["n"]] if partitioned else []
        append_file(table, pa.Table.from_pylist(group, schema), partition=values)


_BY_N = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "n"))


@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
@pytest.mark.parametrize("change", _CHANGES)
def test_files_of_an_expired_schema_are_read_changed_and_kept_whole(
    one_lake: lw.Lake,
    one_stranger: Stranger,
    name: str,
    tmp_path: Path,
    change: str,
    *,
    partitioned: bool,
) -> None:
    with their_catalog(tmp_path / "theirs") as theirs:
        options = {"partition_spec": _BY_N} if partitioned else {}
        made, expected = _evolved(theirs, _CHANGES[change], **options)
        table = one_lake.adopt(name, made.metadata_location)

    assert _rows(table.to_arrow()) == expected
    _finds_every_row(table, expected)

    # Files are written again, and no value may get lost by it.
    delete(one_lake, name, "id = 2")
    expected = [r for r in expected if r["id"] != 2]
    assert _rows(table.to_arrow()) == expected
    column = next(n for n in table.schema.names if n in ("title", "a", "a.b-c d"))
    with one_lake.transaction() as tx:
        tx.update(name, set={column: "'new'"}, where="id = 3")
        tx.merge(name, pa.table({"id": [4]}), on="id", matched="delete", not_matched=None)
    expected = [{**r, column: "new"} if r["id"] == 3 else r for r in expected if r["id"] != 4]
    assert _rows(table.to_arrow()) == expected
    append(one_lake, name, pa.Table.from_pylist([{**expected[0], "id": 7}], table.schema.arrow))
    expected = sorted([*expected, {**expected[0], "id": 7}], key=lambda r: r["id"])
    assert _rows(table.to_arrow()) == expected
    _finds_every_row(table, expected)
    theirs_now = _rows(one_stranger.rows(name))
    # pyiceberg makes empty lists and maps of those that are null.
    assert [_without_nests(r) for r in theirs_now] == [_without_nests(r) for r in expected]


def _without_nests(row: Row) -> Row:
    return {k: v or None if k in ("l", "m") else v for k, v in row.items()}


def _finds_every_row(table: lw.Table, expected: list[Row]) -> None:
    """Every value of every plain column is found by a condition on it, and nothing else is."""
    for column in table.schema.names:
        if column in ("s", "l", "m"):
            continue
        for row in expected:
            value = row[column]
            quoted = f"`{column}`"
            text = f"'{value}'" if isinstance(value, str) else str(value)
            where = f"{quoted} IS NULL" if value is None else f"{quoted} = {text}"
            found = table.to_arrow(columns=["id"], where=where)["id"].to_pylist()
            assert sorted(found) == [r["id"] for r in expected if r[column] == value], where


_PLAIN = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
)


def _plain_table(catalog: Any, **options: Any) -> Any:
    catalog.create_namespace_if_not_exists("shop")
    return catalog.create_table("shop.plain", _PLAIN, **options)


def _numbered_rows(*numbers: int) -> pa.Table:
    schema = pa.schema([numbered("id", pa.int64(), 1), numbered("name", pa.string(), 2)])
    return pa.table({"id": numbers, "name": [f"name {n}" for n in numbers]}, schema=schema)


def test_files_whose_names_are_not_the_tables_are_read_by_their_ids(
    one_lake: lw.Lake, one_stranger: Stranger, name: str, tmp_path: Path
) -> None:
    # As Delta's UniForm writes them: physical names, and no schema that ever had them.
    names = {"id": "col-4f1c", "name": "col-9a3e"}
    with their_catalog(tmp_path / "theirs") as theirs:
        made = _plain_table(theirs)
        append_file(made, _numbered_rows(1, 2, 3), names=names)
        append_file(made, _numbered_rows(4), names={"id": "name", "name": "id"})
        table = one_lake.adopt(name, made.metadata_location)

    assert table.to_arrow().sort_by("id").to_pylist() == _numbered_rows(1, 2, 3, 4).to_pylist()
    assert table.to_arrow(columns=["id"], where="name = 'name 2'").to_pylist() == [{"id": 2}]
    assert table.to_arrow(columns=["id"], where="name > 'name 2'").num_rows == 2
    delete(one_lake, name, "id = 2")
    with one_lake.transaction() as tx:
        tx.merge(name, _numbered_rows(3, 4, 5), on="id", matched={"name": "source.name || '!'"})
    expected = [
        {"id": 1, "name": "name 1"},
        {"id": 3, "name": "name 3!"},
        {"id": 4, "name": "name 4!"},
        {"id": 5, "name": "name 5"},
    ]
    assert table.to_arrow().sort_by("id").to_pylist() == expected
    assert one_stranger.rows(name).sort_by("id").to_pylist() == expected


def test_files_without_ids_are_read_by_the_name_mapping_alone(
    one_lake: lw.Lake, one_stranger: Stranger, name: str, tmp_path: Path
) -> None:
    bare = pa.table({"key": [1, 2], "label": ["one", "two"], "name": ["old", "old"]})
    mapping = [
        {"field-id": 1, "names": ["id", "key"]},
        {"field-id": 2, "names": ["label"]},
        {"names": ["name"]},
    ]
    properties = {"schema.name-mapping.default": json.dumps(mapping)}
    with their_catalog(tmp_path / "theirs") as theirs:
        made = _plain_table(theirs, properties=properties)
        append_file(made, bare, statistics=False)
        append_file(made, _numbered_rows(3))
        table = one_lake.adopt(name, made.metadata_location)

    expected = [
        {"id": 1, "name": "one"},
        {"id": 2, "name": "two"},
        {"id": 3, "name": "name 3"},
    ]
    assert _rows(table.to_arrow()) == expected
    assert table.to_arrow(where="name = 'two'").to_pylist() == expected[1:2]
    delete(one_lake, name, "id = 1")
    assert _rows(table.to_arrow()) == expected[1:]
    assert _rows(one_stranger.rows(name)) == expected[1:]


def test_a_column_that_neither_an_id_nor_a_name_explains_is_refused(
    one_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    with their_catalog(tmp_path / "theirs") as theirs:
        made = _plain_table(theirs)
        append_file(made, pa.table({"id": [1], "title": ["x"]}), statistics=False)
        table = one_lake.adopt(name, made.metadata_location)

    with pytest.raises(CorruptTable, match="'title', which nothing maps"):
        table.to_arrow()
    with unchanged(one_lake), pytest.raises(CorruptTable, match="nothing maps"):
        delete(one_lake, name, "id = 2")


def test_metadata_that_others_expire_later_changes_no_row(
    one_lake: lw.Lake, one_stranger: Stranger, name: str
) -> None:
    table = one_lake.create(name, {"id": "int64", "a": "string", "b": "string"}, format="iceberg")
    append(one_lake, name, [{"id": 1, "a": "a1", "b": "b1"}])
    theirs = one_stranger.table(name)
    for old, new in [("a", "c"), ("b", "a"), ("c", "b")]:
        with theirs.update_schema() as update:
            update.rename_column(old, new)
    before = table.to_arrow().to_pylist()
    theirs.append(pa.table({"id": [2], "b": ["a2"], "a": ["b2"]}))
    expire_metadata(theirs)

    expected = [{"id": 1, "b": "a1", "a": "b1"}, {"id": 2, "b": "a2", "a": "b2"}]
    assert before == expected[:1]
    assert _rows(table.to_arrow()) == expected
    assert table.at(version=1).to_arrow().to_pylist() == [{"id": 1, "a": "a1", "b": "b1"}]
    delete(one_lake, name, "b = 'a2'")
    assert _rows(table.to_arrow()) == _rows(one_stranger.rows(name)) == expected[:1]
