"""Random histories: for every pair of versions, the changes turn the rows of one into the other's.

Tables are of both formats, with and without a change feed and deletion vectors, partitioned or not.
Their histories have appends, updates, deletes, merges, overwrites, compactions, restores, several
operations in one transaction, and changed columns: added, renamed, dropped, replaced by a schema of
other types.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import lakeward as lw
from tests.support.applying import applied, bag, rows_in
from tests.support.sizes import sizes

_FEED: Final = {"delta.enableChangeDataFeed": "true"}
_MAPPED: Final = {"delta.columnMapping.mode": "name"}
_STEPS: Final = (
    "append",
    "append",
    "update",
    "delete",
    "merge",
    "overwrite",
    "several",
    "alter",
    "optimize",
    "restore",
)
_KINDS: Final[dict[str, dict[str, Any]]] = {
    "delta": {"properties": _MAPPED},
    "feed": {"properties": {**_FEED, **_MAPPED}},
    "vectors": {"policy": {"merge_on_read": True}},
    "feed and vectors": {"properties": _FEED, "policy": {"merge_on_read": True}},
    "iceberg": {"format": "iceberg"},
}


@pytest.mark.parametrize("kind", _KINDS)
@sizes("size", short=(2, 9), full=(12, 16))
def test_changes_between_any_two_versions_are_exact(
    tmp_path: Path, kind: str, size: tuple[int, int]
) -> None:
    seeds, steps = size
    checked = 0
    with lw.open(tmp_path / "lake") as lake:
        for seed in range(seeds):
            chance = random.Random(f"{kind} {seed}")
            table = _made(lake, f"t{seed}", kind, chance)
            history = _History(lake, table, chance)
            for _ in range(steps):
                history.step()
            checked += _check_all_pairs(table, keyed=seed % 2 == 1)
            _check_conditions(table)
            if "feed" not in kind:
                _check_nothing_cancels(table)
    assert checked >= seeds * steps
    print(f"{kind}: {checked} pairs of versions")


def _made(lake: lw.Lake, name: str, kind: str, chance: random.Random) -> lw.Table:
    partition_by = chance.choice([(), ("p",)])
    schema = "id int64, v int64, p string, s struct<a: string, b: int64>"
    return lake.create(name, schema, partition_by=partition_by, **_KINDS[kind])


def _check_all_pairs(table: lw.Table, *, keyed: bool) -> int:
    newest = table.version
    pairs = [(a, b) for b in range(1, newest + 1) for a in range(b)]
    for a, b in pairs:
        key = "id" if keyed else None
        changes = table.changes(since=a + 1, until=b, key=key).read_all()
        after = applied(rows_in(table, a, b), changes)
        assert after == rows_in(table, b, b), (table.name, a, b)
    return len(pairs)


def _check_conditions(table: lw.Table) -> None:
    """A condition chooses among the changes by the values that they show."""
    columns = {f.name: f.type for f in table.schema.to_arrow()}
    conditions: dict[str, Callable[[dict[str, Any]], bool]] = {}
    if columns.get("v") == pa.int64():
        conditions |= {
            "v = 1": lambda row: row["v"] == 1,
            "v is null": lambda row: row["v"] is None,
        }
    if "s" in columns and columns["s"].get_field_index("b") >= 0:
        conditions |= {
            "s.b = 1": lambda row: row["s"] is not None and row["s"]["b"] == 1,
            "s.b is null": lambda row: row["s"] is None or row["s"]["b"] is None,
        }
    every = table.changes(since=1).read_all()
    names = every.column_names
    for text, holds in conditions.items():
        found = table.changes(since=1, where=text).read_all().to_pylist()
        wanted = [row for row in every.to_pylist() if holds(row)]
        assert bag(found, names) == bag(wanted, names), (table.name, text)


def _check_nothing_cancels(table: lw.Table) -> None:
    """No version deletes and inserts the same row."""
    for version in range(1, table.version + 1):
        kinds: dict[str, Counter[str]] = {"insert": Counter(), "delete": Counter()}
        for row in table.changes(since=version, until=version).read_all().to_pylist():
            values = [row[n] for n in table.at(version=version).schema.names]
            kinds[row["_change_type"]][repr(values)] += 1
        assert not kinds["insert"] & kinds["delete"], (table.name, version)


class _History:
    """Random transactions on one table."""

    def __init__(self, lake: lw.Lake, table: lw.Table, chance: random.Random) -> None:
        self._lake = lake
        self._table = table
        self._chance = chance
        self._last = 0

    def step(self) -> None:
        chance = self._chance
        match chance.choice(_STEPS):
            case "alter":
                self._alter()
            case "optimize":
                self._table.optimize()
            case "restore":
                version = chance.randrange(self._table.version + 1)
                with self._lake.transaction() as tx:
                    tx.restore(self._table.name, version=version)
            case "several":
                with self._lake.transaction() as tx:
                    for _ in range(3):
                        self._operation(tx, chance.choice(["append", "update", "delete", "merge"]))
            case operation:
                with self._lake.transaction() as tx:
                    self._operation(tx, operation)

    def _operation(self, tx: lw.Transaction, operation: str) -> None:
        name, chance = self._table.name, self._chance
        bound = chance.randrange(self._last + 1)
        numbers = [f.name for f in self._table.schema if str(f.type) == "int64"]
        number = next((n for n in numbers if n != "id"), "id")
        match operation:
            case "append":
                tx.append(name, self._rows(chance.randrange(1, 9), new=True))
            case "update":
                tx.update(name, set={number: f"{number} + 0"}, where=f"id < {bound // 2}")
                if number != "id":
                    more = {number: f"{number} + 1000"}
                    tx.update(name, set=more, where=f"id % 3 = {bound % 3}")
            case "delete":
                tx.delete(name, where=f"id % 7 = {bound % 7}")
            case "merge":
                tx.merge(name, self._rows(6, new=False), on="id")
            case "overwrite":
                where = f"id < {bound}" if chance.random() < 0.5 else None
                rows = self._rows(6, new=False)
                if where is not None:
                    kept = [n for n, i in enumerate(rows["id"].to_pylist()) if i < bound]
                    rows = rows.take(pa.array(kept, pa.int64()))
                tx.overwrite(name, rows, where=where)

    def _rows(self, count: int, *, new: bool) -> pa.Table:
        chance = self._chance
        first = self._last if new else 0
        span = range(first, max(first + count, self._last))
        ids = list(range(first, first + count)) if new else chance.sample(span, count)
        self._last = max(self._last, max(ids) + 1)
        schema = self._table.schema.to_arrow()
        columns = {f.name: [self._value(f, i) for i in ids] for f in schema}
        return pa.table(columns, schema=schema)

    def _value(self, field: pa.Field, number: int) -> Any:
        if field.name == "id":
            return number
        if field.name == "p":
            return self._chance.choice(["x", "y"])
        if self._chance.random() < 0.2:
            return None
        if pa.types.is_struct(field.type):
            given = {"a": self._chance.choice("ab"), "b": self._chance.choice([1, 2, None])}
            return {part.name: given[part.name] for part in field.type}
        value = self._chance.randrange(3)
        return str(value) if pa.types.is_string(field.type) else value

    def _alter(self) -> None:
        table, chance = self._table, self._chance
        names = table.schema.names
        free = [n for n in ("w", "x", "y") if n not in names]
        mapped = table.format == "iceberg" or "columnMapping" in str(table.properties)
        match chance.choice(["add", "rename", "drop", "replace"]):
            case "rename" if mapped and "v" in names and free:
                table.alter().rename_column("v", free[0]).commit()
            case "drop" if mapped and "s" in names:
                parts = [f.name for f in table.schema.to_arrow().field("s").type]
                nested = "b" in parts and chance.random() < 0.7
                table.alter().drop_column("s.b" if nested else "s").commit()
            case "replace" if "v" in names:
                rows = self._rows(4, new=True)
                text = pa.array(["a", "b", None, "c"])
                rows = rows.set_column(names.index("v"), "v", text)
                with self._lake.transaction() as tx:
                    tx.overwrite(table.name, rows, schema_mode="overwrite")
            case _ if free:
                table.alter().add_column(free[-1], "int64").commit()
