"""Random rows for two tables with tolerant constraints, compared with a model that admits them.

A row that is quarantined takes no key and is no parent, wherever it is in its batch.
"""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

import lakeward as lw
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.one_pair

_KEYS: Final = 40
Rows = list[dict[str, Any]]


@pytest.mark.representative
@sizes("steps", short=15, full=400)
def test_only_rows_that_violate_something_are_kept_out(lake_target: LakeTarget, steps: int) -> None:
    choose = random.Random(lake_target.table_format)
    lake = _made(lake_target)
    model: dict[str, Rows] = {"p": [], "c": []}
    for _ in range(steps):
        if choose.random() < 0.3:
            source = {choose.randrange(_KEYS): choose.randint(-3, 3) for _ in range(5)}
            with lake.transaction() as tx:
                tx.merge("p", [{"id": i, "n": n} for i, n in source.items()], on="id")
            _merge(model["p"], source)
        else:
            new: dict[str, Rows] = {"p": [], "c": []}
            with lake.transaction() as tx:
                for _ in range(choose.randint(1, 4)):
                    name = choose.choice(["p", "c"])
                    rows = [_row(choose, name) for _ in range(choose.randint(1, 8))]
                    tx.append(name, rows)
                    new[name] += rows
            _append(model, new)
        for name, expected in model.items():
            assert _sorted(lake.table(name).to_arrow().to_pylist()) == _sorted(expected)
    asides = [t.count() for t in lake.tables() if t.name.endswith("__quarantine")]
    assert len(asides) == 2
    lake.close()


def _made(target: LakeTarget) -> lw.Lake:
    lake = target.open()
    parent: dict[str, Any] = {
        "key": lw.Unique("id", on_violation="quarantine"),
        "positive": lw.Check("n > 0", on_violation="quarantine"),
    }
    lake.create("p", "id int64, n int64", constraints=parent)
    child: dict[str, Any] = {
        "key": lw.Unique("id", on_violation="quarantine"),
        "other": lw.Unique("n", on_violation="quarantine"),
        "parent": lw.ForeignKey("p", references="p", key="id", on_violation="quarantine"),
        "small": lw.Check("id < 35", on_violation="quarantine"),
        "known": lw.NotNull("id", on_violation="quarantine"),
    }
    lake.create("c", "id int64 not null, n int64, p int64", constraints=child)
    return lake


def _row(choose: random.Random, name: str) -> dict[str, Any]:
    if name == "p":
        return {"id": choose.randrange(_KEYS), "n": choose.randint(-3, 3)}
    key = None if choose.random() < 0.1 else choose.randrange(_KEYS)
    return {"id": key, "n": choose.randrange(_KEYS), "p": choose.randrange(_KEYS)}


def _append(model: dict[str, Rows], new: dict[str, Rows]) -> None:
    """Admit rows in their order, parents first."""
    for row in new["p"]:
        if row["n"] > 0 and row["id"] not in _values(model["p"], "id"):
            model["p"].append(row)
    for row in new["c"]:
        is_sound = row["id"] is not None and row["id"] < 35
        taken = any(row[key] in _values(model["c"], key) for key in ("id", "n"))
        if is_sound and not taken and row["p"] in _values(model["p"], "id"):
            model["c"].append(row)


def _merge(rows: Rows, source: dict[int, int]) -> None:
    for key, n in source.items():
        if n > 0:
            rows[:] = [row for row in rows if row["id"] != key] + [{"id": key, "n": n}]


def _values(rows: Rows, key: str) -> set[Any]:
    return {row[key] for row in rows}


def _sorted(rows: Rows) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows)
