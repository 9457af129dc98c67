"""Random alterations, appends and deletes, compared after every step with a model in memory."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.write.alter.builder import Alter
from tests.interop.readers import DeltaRs
from tests.support.iceberg import stranger_arrow
from tests.support.sizes import sizes

_NAMES = ("a", "b", "c", "d")
_KEPT = (1, 2, 3)
"""Members of structs that stay: delta-rs fails on files whose struct has none of the present."""


class Model:
    """A table of `id`, of text columns, and of structs with text members: `s`, in `l` and in `m`.

    A column is a number that is never given out again, whatever it is called. `names` has the
    numbers in order, by the path of what they are in; `rows` have values by number.
    """

    def __init__(self) -> None:
        self.names: dict[str, list[tuple[str, int]]] = {
            "": [("a", 0)],
            "s.": [("a", 1)],
            "l.element.": [("a", 2)],
            "m.value.": [("a", 3)],
        }
        self.rows: list[dict[int | str, Any]] = []
        self.last = 3

    def seen(self) -> list[dict[str, Any]]:
        """The rows as a reader sees them, columns in order."""
        return [
            {
                "id": row["id"],
                **{name: row.get(number) for name, number in self.names[""]},
                "s": self._members(row, "s."),
                "l": [self._members(row, "l.element.")],
                "m": [("k", self._members(row, "m.value."))],
            }
            for row in sorted(self.rows, key=lambda r: r["id"])
        ]

    def _members(self, row: dict[int | str, Any], path: str) -> dict[str, Any]:
        return {name: row.get(number) for name, number in self.names[path]}

    def alter(self, choose: random.Random, to: Alter) -> None:
        """One random change, made here and there."""
        around = choose.choice(["", *self.names])
        columns = self.names[around]
        free = [n for n in _NAMES if n not in dict(columns)]
        kind = choose.choice(["add", "rename", "drop", "move"])
        if kind == "add" and free:
            self.last += 1
            name = choose.choice(free)
            columns.append((name, self.last))
            to.add_column(f"{around}{name}", "string", after=None if around else "id")
            if not around:
                columns.insert(0, columns.pop())
        elif kind == "rename" and free:
            place = choose.randrange(len(columns))
            (old, number), new = columns[place], choose.choice(free)
            columns[place] = (new, number)
            to.rename_column(f"{around}{old}", new)
        elif kind == "drop" and len(columns) > 1:
            name, number = choose.choice([c for c in columns if c[1] not in _KEPT])
            columns.remove((name, number))
            to.drop_column(f"{around}{name}")
        elif kind == "move" and len(columns) > 1:
            first, second = choose.sample(columns, 2)
            columns.remove(first)
            columns.insert(columns.index(second) + 1, first)
            to.move_column(f"{around}{first[0]}", after=f"{around}{second[0]}")

    def append(self, number: int) -> dict[str, Any]:
        """A new row, as data for the table."""
        row: dict[int | str, Any] = {"id": number}
        row |= {n: f"{number}.{n}" for columns in self.names.values() for _, n in columns}
        self.rows.append(row)
        return next(seen for seen in self.seen() if seen["id"] == number)


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
@sizes("steps", short=30, full=400)
def test_random_alterations_leave_every_version_as_the_model_has_it(
    tmp_path: Path, table_format: str, steps: int
) -> None:
    check_random_alterations(tmp_path, table_format, steps, seed=17)


def check_random_alterations(place: Path, table_format: str, steps: int, *, seed: int) -> None:
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
        model, versions = Model(), {0: list[dict[str, Any]]()}
        for step in range(steps):
            with lake.transaction() as tx:
                for _ in range(choose.randrange(3)):
                    model.alter(choose, tx.alter("t"))
                if choose.random() < 0.7:
                    tx.append("t", [model.append(step)])
                if model.rows and choose.random() < 0.2:
                    gone = choose.choice(model.rows)
                    model.rows.remove(gone)
                    tx.delete("t", where=f"id = {gone['id']}")
            versions[table.version] = model.seen()
            assert _rows(table.to_arrow()) == model.seen(), step
        for version, seen in versions.items():
            assert _rows(table.at(version=version).to_arrow()) == seen, version
        _compare_with_strangers(lake, table, model)


def _compare_with_strangers(lake: lw.Lake, table: lw.Table, model: Model) -> None:
    if table.format == "iceberg":
        assert _rows(stranger_arrow(lake, "t")) == model.seen()
        return
    # delta-rs 1.6 cannot read structs in maps that got members since.
    theirs = DeltaRs().query(table.location, "SELECT * EXCEPT (m) FROM t")
    assert _rows(theirs) == [{n: v for n, v in row.items() if n != "m"} for row in model.seen()]


def _rows(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=lambda r: r["id"])
