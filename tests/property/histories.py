"""Random histories of one table: transactions of all kinds, and changed columns."""

from __future__ import annotations

import random
from typing import Any, Final

import pyarrow as pa

import lakeward as lw

_FEED: Final = {"delta.enableChangeDataFeed": "true"}
_MAPPED: Final = {"delta.columnMapping.mode": "name"}
STEPS: Final = (
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
KINDS: Final[dict[str, dict[str, Any]]] = {
    "delta": {"properties": _MAPPED},
    "feed": {"properties": {**_FEED, **_MAPPED}},
    "vectors": {"policy": {"merge_on_read": True}},
    "feed and vectors": {"properties": _FEED, "policy": {"merge_on_read": True}},
    "feed at times": {"properties": _FEED},
    "iceberg": {"format": "iceberg"},
}


def made(lake: lw.Lake, name: str, kind: str, chance: random.Random) -> lw.Table:
    """A table without rows, partitioned or not."""
    partition_by = chance.choice([(), ("p",)])
    schema = "id int64, v int64, p string, s struct<a: string, b: int64>"
    return lake.create(name, schema, partition_by=partition_by, **KINDS[kind])


class History:
    """Random transactions on one table."""

    def __init__(
        self, lake: lw.Lake, table: lw.Table, chance: random.Random, *, toggles_feed: bool = False
    ) -> None:
        self._lake = lake
        self._table = table
        self._chance = chance
        self._toggles_feed = toggles_feed
        self._last = 0

    def step(self, steps: tuple[str, ...] = STEPS) -> None:
        """Commit one transaction of a random kind."""
        chance = self._chance
        if self._toggles_feed and chance.random() < 0.3:
            self._toggle_feed()
        match chance.choice(steps):
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

    def _toggle_feed(self) -> None:
        on = self._table.properties.get("delta.enableChangeDataFeed") == "true"
        value = "false" if on else "true"
        self._table.alter().set_property("delta.enableChangeDataFeed", value).commit()

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
