"""Random alterations and changes of rows, compared after every step with a model in memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.write.alter.builder import Alter
from tests.interop.readers import DeltaRs, DuckDb
from tests.support.iceberg import stranger_arrow
from tests.support.sizes import sizes

_NAMES = ("a", "b", "c", "d")
_KEPT = (1, 2, 3)
"""Members of structs that stay: delta-rs fails on files whose struct has none of the present."""
_WIDER = {"int32": "int64", "float": "double"}
_KINDS = ("string", "string", "int32", "float")
_SQL = {"string": "STRING", "int32": "INT", "int64": "BIGINT", "float": "FLOAT", "double": "DOUBLE"}


@dataclass(frozen=True)
class Column:
    """A column, or a member of a struct; the number is never given out again."""

    name: str
    number: int
    kind: str = "string"
    default: Any = None
    required: bool = False

    def value(self, row: int) -> Any:
        """What a row has here, which no other row and no other column has."""
        match self.kind:
            case "string":
                return f"{row}.{self.number}"
            case "int32":
                return row * 1000 + self.number % 1000
            case "int64":
                return 2**40 + row * 1000 + self.number % 1000
            case "float":
                return row + self.number % 4 / 4
            case _:
                return row + self.number / 10


class Model:
    """A table of `id`, of columns, and of structs with members: `s`, in `l` and in `m`.

    `columns` has them in order, by the path of what they are in; `rows` have values by number.
    """

    def __init__(self, *, widens: bool) -> None:
        self.columns: dict[str, list[Column]] = {
            "": [Column("a", 0)],
            "s.": [Column("a", 1)],
            "l.element.": [Column("a", 2)],
            "m.value.": [Column("a", 3)],
        }
        self.rows: list[dict[int | str, Any]] = []
        self.last = 3
        self.widens = widens

    def seen(self) -> list[dict[str, Any]]:
        """The rows as a reader sees them, columns in order."""
        return [
            {
                "id": row["id"],
                **{c.name: row.get(c.number) for c in self.columns[""]},
                "s": self._members(row, "s."),
                "l": [self._members(row, "l.element.")],
                "m": [("k", self._members(row, "m.value."))],
            }
            for row in sorted(self.rows, key=lambda r: r["id"])
        ]

    def _members(self, row: dict[int | str, Any], path: str) -> dict[str, Any]:
        return {c.name: row.get(c.number) for c in self.columns[path]}

    def alter(self, choose: random.Random, to: Alter) -> None:
        """One random change, made here and there."""
        around = choose.choice(["", *self.columns])
        columns = self.columns[around]
        free = [n for n in _NAMES if n not in {c.name for c in columns}]
        place = choose.randrange(len(columns))
        column = columns[place]
        path = f"{around}{column.name}"
        match choose.choice(["add", "rename", "drop", "move", "widen", "default", "required"]):
            case "add" if free:
                self.last += 1
                new = Column(choose.choice(free), self.last, choose.choice(_KINDS))
                to.add_column(f"{around}{new.name}", new.kind, after=None if around else "id")
                columns.insert(len(columns) if around else 0, new)
            case "rename" if free:
                columns[place] = replace(column, name=choose.choice(free))
                to.rename_column(path, columns[place].name)
            case "drop" if len(columns) > 1 and column.number not in _KEPT and not column.required:
                columns.remove(column)
                to.drop_column(path)
            case "move" if len(columns) > 1:
                other = choose.choice([c for c in columns if c is not column])
                columns.remove(column)
                columns.insert(columns.index(other) + 1, column)
                to.move_column(path, after=f"{around}{other.name}")
            case "widen" if self.widens and column.kind in _WIDER:
                columns[place] = replace(column, kind=_WIDER[column.kind])
                to.change_type(path, columns[place].kind)
            case "default" if not around and column.kind == "string":
                text = choose.choice([None, f"d{column.number}"])
                columns[place] = replace(column, default=text)
                to.set_default(path, None if text is None else f"'{text}'")
            case "required" if not around:
                has_all = all(row.get(column.number) is not None for row in self.rows)
                if column.required or has_all:
                    columns[place] = replace(column, required=not column.required)
                    (to.set_nullable if column.required else to.set_not_null)(path)

    def append(self, number: int, choose: random.Random) -> dict[str, Any]:
        """A new row, as data for the table; a column with a default is left out at times."""
        row: dict[int | str, Any] = {"id": number}
        left_out = []
        for column in self._each():
            row[column.number] = column.value(number)
        for column in self.columns[""]:
            if column.default is not None and choose.random() < 0.5:
                row[column.number] = column.default
                left_out.append(column.name)
        self.rows.append(row)
        data = next(seen for seen in self.seen() if seen["id"] == number)
        return {name: value for name, value in data.items() if name not in left_out}

    def update(self, choose: random.Random, tx: lw.Transaction) -> None:
        """Give some rows another text, where a column has one."""
        texts = [c for c in self.columns[""] if c.kind == "string"]
        if not texts or not self.rows:
            return
        column, row = choose.choice(texts), choose.choice(self.rows)
        tx.update("t", set={column.name: f"'u{row['id']}'"}, where=f"id = {row['id']}")
        row[column.number] = f"u{row['id']}"

    def replaced(self, choose: random.Random) -> str:
        """Other columns and no rows: the statement that replaces the table."""
        self.rows.clear()
        before = {c.name: c for c in self.columns[""]}
        new = []
        for name in choose.sample(_NAMES, choose.randrange(1, 4)):
            kind = choose.choice(_KINDS)
            known = before.get(name)
            self.last += 1
            same = known is not None and known.kind == kind
            new.append(Column(name, known.number if same and known else self.last, kind))
        self.columns[""] = new
        members = {path: self._declared(path) for path in self.columns if path}
        columns = ", ".join(f"{c.name} {_SQL[c.kind]}" for c in new)
        return (
            f"CREATE OR REPLACE TABLE t (id BIGINT, {columns}, s STRUCT<{members['s.']}>,"
            f" l ARRAY<STRUCT<{members['l.element.']}>>,"
            f" m MAP<STRING, STRUCT<{members['m.value.']}>>)"
        )

    def _declared(self, path: str) -> str:
        return ", ".join(f"{c.name}: {_SQL[c.kind]}" for c in self.columns[path])

    def _each(self) -> Iterator[Column]:
        for columns in self.columns.values():
            yield from columns


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
@sizes("steps", short=30, full=400)
def test_random_alterations_leave_every_version_as_the_model_has_it(
    tmp_path: Path, table_format: str, steps: int
) -> None:
    # delta-rs reads no Delta table with wider types.
    widens = table_format == "iceberg"
    check_random_alterations(tmp_path, table_format, steps, seed=17, widens=widens)


@pytest.mark.peers
@sizes("steps", short=12, full=400)
def test_random_alterations_with_wider_types_in_delta(tmp_path: Path, steps: int) -> None:
    (tmp_path / "duckdb").mkdir()
    with DuckDb(tmp_path / "duckdb") as stranger:
        check_random_alterations(tmp_path, "delta", steps, seed=18, widens=True, stranger=stranger)


def check_random_alterations(
    place: Path,
    table_format: str,
    steps: int,
    *,
    seed: int,
    widens: bool = False,
    stranger: DuckDb | None = None,
) -> None:
    """Alter a table at random and compare every version with the model."""
    choose = random.Random(seed)
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("a", pa.string()),
            ("s", pa.struct([("a", pa.string())])),
            ("l", pa.list_(pa.struct([("a", pa.string())]))),
            ("m", pa.map_(pa.string(), pa.struct([("a", pa.string())]))),
        ]
    )
    with lw.open(place / "lake") as lake:
        table = lake.create("t", schema, format=table_format)
        model, versions = Model(widens=widens), {0: list[dict[str, Any]]()}
        for step in range(steps):
            with lake.transaction() as tx:
                if choose.random() < 0.03:
                    tx.sql(model.replaced(choose))
                for _ in range(choose.randrange(3)):
                    model.alter(choose, tx.alter("t"))
                if choose.random() < 0.7:
                    tx.append("t", [model.append(step, choose)])
                if choose.random() < 0.2:
                    model.update(choose, tx)
                if model.rows and choose.random() < 0.2:
                    gone = choose.choice(model.rows)
                    model.rows.remove(gone)
                    tx.delete("t", where=f"id = {gone['id']}")
            versions[table.version] = model.seen()
            assert _ordered(_rows(table.to_arrow())) == _ordered(model.seen()), step
        for version, seen in versions.items():
            assert _ordered(_rows(table.at(version=version).to_arrow())) == _ordered(seen), version
        _compare_with_strangers(lake, table, model, stranger)


def _compare_with_strangers(
    lake: lw.Lake, table: lw.Table, model: Model, stranger: DuckDb | None
) -> None:
    if table.format == "iceberg":
        assert _rows(stranger_arrow(lake, "t")) == model.seen()
        return
    if stranger is not None:
        assert _rows(stranger.rows(table.location)) == model.seen()
        return
    # delta-rs 1.6 cannot read structs in maps that got members since.
    theirs = DeltaRs().query(table.location, "SELECT * EXCEPT (m) FROM t")
    assert _rows(theirs) == [{n: v for n, v in row.items() if n != "m"} for row in model.seen()]


def _ordered(rows: list[dict[str, Any]]) -> list[Any]:
    """Return rows with their columns, and members of structs, in order."""
    return [
        [(n, list(v.items()) if isinstance(v, dict) else v) for n, v in row.items()] for row in rows
    ]


def _rows(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=lambda r: r["id"])
