"""Files that were written under several schemas are compacted into files of the newest one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.maintain.optimize import rewriting

_SCHEMA = {"id": "int32", "s": "struct<x: int64>", "v": "float32", "k": "string"}
_OLD = {"s": {"x": 1}, "v": 1.5, "k": "old"}
_NEW = {"s": {"x": 2}, "v": 2.5, "k": "new"}


class Case(NamedTuple):
    """How a table is altered between appends, and the rows before and after under its columns."""

    alter: Callable[[lw.Table], Any]
    old: dict[str, Any]
    new: dict[str, Any]


CASES = {
    "same": Case(lambda t: None, _OLD, _NEW),
    "added": Case(
        lambda t: t.alter().add_column("more", "string").commit(),
        {**_OLD, "more": None},
        {**_NEW, "more": "m"},
    ),
    "added inside": Case(
        lambda t: t.alter().add_column("s.y", "int64").commit(),
        {**_OLD, "s": {"x": 1, "y": None}},
        {**_NEW, "s": {"x": 2, "y": 3}},
    ),
    "renamed": Case(
        lambda t: t.alter().rename_column("k", "key").commit(),
        {"s": {"x": 1}, "v": 1.5, "key": "old"},
        {"s": {"x": 2}, "v": 2.5, "key": "new"},
    ),
    "widened": Case(
        lambda t: t.alter().change_type("id", "int64").change_type("v", "float64").commit(),
        _OLD,
        {**_NEW, "v": 2.1},
    ),
    "dropped": Case(
        lambda t: t.alter().drop_column("k").commit(),
        {"s": {"x": 1}, "v": 1.5},
        {"s": {"x": 2}, "v": 2.5},
    ),
    "another of the same name": Case(
        lambda t: (
            t.alter().drop_column("k").commit(),
            t.alter().add_column("k", "string").commit(),
        ),
        {**_OLD, "k": None},
        _NEW,
    ),
    "name of another": Case(
        lambda t: (
            t.alter().rename_column("k", "was").commit(),
            t.alter().add_column("k", "string").commit(),
        ),
        {"s": {"x": 1}, "v": 1.5, "was": "old", "k": None},
        {"s": {"x": 2}, "v": 2.5, "was": "new", "k": "other"},
    ),
}


def append(table: lw.Table, start: int, values: dict[str, Any]) -> None:
    """Append two files with a row of these values and a row of nulls each."""
    schema = table.schema.to_arrow()
    wanted = pa.schema([schema.field(n) for n in ("id", *values)])
    for number in (start, start + 2):
        rows = [{"id": number, **values}, {"id": number + 1, **dict.fromkeys(values)}]
        table.append(pa.Table.from_pylist(rows, wanted))


def expected(case: Case) -> list[dict[str, Any]]:
    values = [case.old, case.old, case.new, case.new]
    rows = [row for v in values for row in (v, dict.fromkeys(v))]
    return [{"id": number, **row} for number, row in enumerate(rows)]


def rows(table: lw.Table | lw.TableSnapshot) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("read", ["whole", "scanned", "clustered", "by id"])
@pytest.mark.parametrize("case", CASES)
def test_rows_of_all_schemas_stay(
    shared_lake: lw.Lake,
    name: str,
    table_format: str,
    case: str,
    read: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mapped = {"delta.columnMapping.mode": "id"} if table_format == "delta" else None
    table = shared_lake.create(name, _SCHEMA, properties=mapped if read == "by id" else None)
    append(table, 0, _OLD)
    before, old_version = rows(table), table.version
    CASES[case].alter(table)
    append(table, 4, CASES[case].new)
    assert rows(table) == expected(CASES[case])
    version = table.version
    if read == "scanned":
        monkeypatch.setattr(rewriting, "_WHOLE_BYTES", -1)

    done = table.optimize(zorder=["id", "v"] if read == "clustered" else None)

    assert done.state == "done"
    assert len(table.files()) == 1
    assert rows(table) == expected(CASES[case])
    assert rows(table.at(version=version)) == expected(CASES[case])
    assert rows(table.at(version=old_version)) == before
    assert not shared_lake.doctor(tables=[name]).findings
