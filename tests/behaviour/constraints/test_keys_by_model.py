"""Random changes of two tables with keys, compared with a model that looks at all rows."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Final

import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation
from lakeward.write.keys import check, index
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.one_pair

_KEYS: Final = 12
Rows = list[dict[str, Any]]


@pytest.mark.representative
@sizes("steps", short=60, full=2000)
@pytest.mark.parametrize("in_place", [False, True])
def test_what_a_model_allows_is_committed_and_nothing_else(
    lake_target: LakeTarget, monkeypatch: pytest.MonkeyPatch, steps: int, in_place: bool
) -> None:
    """Every look-up goes by the index, which is kept as files and loaded again and again."""
    for module, limit in ((index, "_FEW_ROWS"), (index, "_FEW_FILES"), (check, "_READ_ROWS")):
        monkeypatch.setattr(module, limit, 1)
    choose = random.Random(f"{lake_target.table_format} {in_place}")
    policy = {"merge_on_read": True, "merge_on_read_fraction": 1} if in_place else {}
    if lake_target.table_format == "iceberg":
        policy = {}
    lake = lake_target.open()
    lake.create(
        "p", {"id": "int64", "n": "int64"}, policy=policy, constraints={"key": lw.Unique("id")}
    )
    foreign = lw.ForeignKey("parent", references="p", key="id")
    lake.create(
        "c",
        {"id": "int64", "parent": "int64"},
        policy=policy,
        constraints={"key": lw.Unique("id", "parent"), "parent": foreign},
    )
    model: dict[str, Rows] = {"p": [], "c": []}
    outcomes: Counter[bool] = Counter()
    for _ in range(steps):
        wanted = {name: list(rows) for name, rows in model.items()}
        tx = lake.transaction()
        for _ in range(choose.randint(1, 3)):
            _change(choose, tx, wanted)
        legal = _is_legal(wanted)
        outcomes[legal] += 1
        if legal:
            tx.commit()
            model = wanted
        else:
            with pytest.raises(ConstraintViolation):
                tx.commit()
        for name, rows in model.items():
            assert _sorted(lake.table(name).to_arrow().to_pylist()) == _sorted(rows)
        if choose.random() < 0.1:
            lake.close()
            lake = lake_target.open()
    assert min(outcomes[True], outcomes[False]) > steps // 10
    lake.close()


def _change(choose: random.Random, tx: lw.Transaction, wanted: dict[str, Rows]) -> None:
    name = choose.choice(["p", "c"])
    other = "n" if name == "p" else "parent"
    key = choose.randrange(_KEYS)
    match choose.choice(["append", "append", "append", "delete", "move", "set", "overwrite"]):
        case "append":
            new = [_row(choose, other) for _ in range(choose.randint(1, 2))]
            tx.append(name, new)
            wanted[name] += new
        case "delete":
            tx.delete(name, where=f"id = {key}")
            wanted[name] = [r for r in wanted[name] if r["id"] != key]
        case "move":
            tx.update(name, set={"id": f"id + {choose.choice([1, 40])}"}, where=f"id < {key}")
            wanted[name] = tx.read(name).to_pylist()
        case "set":
            tx.update(name, set={other: str(key)}, where=f"id = {choose.randrange(_KEYS)}")
            wanted[name] = tx.read(name).to_pylist()
        case _:
            new = [{"id": key + n, other: choose.randrange(_KEYS)} for n in range(2)]
            tx.overwrite(name, new, where=f"id >= {key}")
            wanted[name] = [r for r in wanted[name] if r["id"] is None or r["id"] < key] + new


def _row(choose: random.Random, other: str) -> dict[str, Any]:
    key = None if choose.random() < 0.05 else choose.randrange(_KEYS)
    return {"id": key, other: None if choose.random() < 0.1 else choose.randrange(_KEYS)}


def _is_legal(wanted: dict[str, Rows]) -> bool:
    parents = Counter(r["id"] for r in wanted["p"] if r["id"] is not None)
    children = Counter(
        (r["id"], r["parent"]) for r in wanted["c"] if None not in (r["id"], r["parent"])
    )
    referred = {r["parent"] for r in wanted["c"]} - {None}
    doubled = [n for n in (*parents.values(), *children.values()) if n > 1]
    return not doubled and referred <= parents.keys()


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=lambda r: [(v is not None, v or 0) for v in r.values()])
