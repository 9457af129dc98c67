"""A policy that is set while a transaction is open holds for what the transaction replays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation
from lakeward.write.transaction import lifecycle, resolve
from tests.behaviour.lakes import append, delete, ids

Case: TypeAlias = tuple[dict[str, Any], dict[str, Any], Callable[[lw.Transaction, str], object]]
"""The options of the transaction, the policy, and what the transaction does."""
_APPEND_ONLY = {"append_only": True}
_POSITIVE = {"constraints": {"positive": "id > 0"}}
_BY_ID: dict[str, Any] = {"on_conflict": lw.LastWriterWins(key=("id",))}
_OURS: dict[str, Any] = {"on_conflict": lambda _: "ours"}
_REPLACE: dict[str, Any] = {"on_conflict": lambda _: lw.Replace([{"id": -1}], where="id < 0")}
_READ_COMMITTED: dict[str, Any] = {"isolation": "read_committed"}


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> str:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, 2]})
    append(shared_lake, name, {"id": [3, 4]})
    return name


# None of these changes violates the policy before it is replayed.
_BEFORE: dict[str, Case] = {
    "replace": (_REPLACE, _POSITIVE, lambda tx, name: tx.delete(name, where="true")),
    "ours": (
        _OURS,
        _APPEND_ONLY,
        lambda tx, name: tx.update(name, set={"id": 50}, where="id = 5"),
    ),
    "last writer": (_BY_ID, _APPEND_ONLY, lambda tx, name: tx.append(name, {"id": [5]})),
    "read committed": (
        _READ_COMMITTED,
        _APPEND_ONLY,
        lambda tx, name: tx.delete(name, where="id = 5"),
    ),
}


@pytest.mark.parametrize("case", _BEFORE)
def test_a_policy_that_is_set_before_the_conflict_holds_for_the_replay(
    shared_lake: lw.Lake, table: str, case: str
) -> None:
    options, policy, change = _BEFORE[case]
    tx = shared_lake.transaction(**options)
    change(tx, table)
    shared_lake.set_policy(table, policy)
    append(shared_lake, table, {"id": [5]})
    with pytest.raises(Conflict, match="policy"):
        tx.commit()
    assert ids(shared_lake, table) == [1, 2, 3, 4, 5]


_AFTER: dict[str, Case] = {
    "replace": (_REPLACE, _POSITIVE, lambda tx, name: tx.delete(name, where="id = 1")),
    "ours": (
        _OURS,
        _POSITIVE,
        lambda tx, name: tx.overwrite(name, {"id": [-1]}, where="id < 2"),
    ),
    "last writer": (
        _BY_ID,
        _POSITIVE,
        lambda tx, name: tx.overwrite(name, {"id": [-1]}, where="id < 2"),
    ),
    "read committed": (
        _READ_COMMITTED,
        _APPEND_ONLY,
        lambda tx, name: tx.delete(name, where="id = 1"),
    ),
    "compaction": ({}, _APPEND_ONLY, lambda tx, name: tx.delete(name, where="id = 1")),
}


@pytest.mark.parametrize("case", _AFTER)
def test_a_policy_that_is_set_between_conflict_and_replay_holds(
    shared_lake: lw.Lake, table: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, policy, change = _AFTER[case]
    tx = shared_lake.transaction(**options)
    change(tx, table)
    if case == "compaction":
        shared_lake.table(table).optimize()
    else:
        delete(shared_lake, table, "id = 2")
    before = ids(shared_lake, table)
    real = resolve.resolve
    conflicts: list[object] = []

    def after_a_policy(*given: Any) -> bool:
        if not conflicts:
            shared_lake.set_policy(table, policy)
        conflicts.append(given)
        return real(*given)

    monkeypatch.setattr(lifecycle, "resolve", after_a_policy)
    with pytest.raises(Conflict, match="policy"):
        tx.commit()
    assert conflicts
    assert ids(shared_lake, table) == before


def test_a_function_is_run_again_under_the_new_policy(shared_lake: lw.Lake, table: str) -> None:
    runs = []

    def replace_all(tx: lw.Transaction) -> None:
        runs.append(tx.transaction_id)
        tx.delete(table, where="true")
        if len(runs) == 1:
            shared_lake.set_policy(table, _POSITIVE)
            append(shared_lake, table, {"id": [5]})
        else:
            tx.append(table, {"id": [-1]})

    with pytest.raises(ConstraintViolation, match="positive"):
        shared_lake.run(replace_all, **_REPLACE)
    assert len(runs) == 2
    assert ids(shared_lake, table) == [1, 2, 3, 4, 5]


def test_a_policy_that_the_replay_fits_is_no_conflict(shared_lake: lw.Lake, table: str) -> None:
    tx = shared_lake.transaction(**_OURS)
    tx.delete(table, where="id = 1")
    shared_lake.set_policy(table, {"compression": "zstd"})
    delete(shared_lake, table, "id = 2")
    tx.commit()
    assert ids(shared_lake, table) == [3, 4]


_ALTERATIONS: dict[str, Callable[[lw.Transaction, str], object]] = {
    "drop": lambda tx, name: tx.alter(name).drop_column("x"),
    "rename": lambda tx, name: tx.alter(name).rename_column("x", "y"),
    "drop and add": lambda tx, name: tx.alter(name).drop_column("x").add_column("x", "bigint"),
}


@pytest.mark.parametrize("is_cut", [False, True], ids=["at once", "after a read"])
@pytest.mark.parametrize("constraint", ["x > 0", lw.Unique("x")], ids=["check", "unique"])
@pytest.mark.parametrize("case", _ALTERATIONS)
def test_a_column_that_a_new_policy_needs_stays(
    shared_lake: lw.Lake,
    table: str,
    new_name: Callable[[], str],
    case: str,
    constraint: Any,
    is_cut: bool,
) -> None:
    own = new_name()
    shared_lake.create(own, {"id": "int64", "x": "int64"})
    append(shared_lake, own, {"id": [1], "x": [1]})
    tx = shared_lake.transaction()
    _ALTERATIONS[case](tx, own)
    shared_lake.set_policy(own, {"constraints": {"needed": constraint}})

    with pytest.raises(Conflict, match="policy"):
        _ = tx.read(table) if is_cut else tx.commit()
    tx.rollback()

    append(shared_lake, own, {"id": [2], "x": [2]})
    assert ids(shared_lake, own, where="x > 0") == [1, 2]


@pytest.mark.parametrize("isolation", ["read_committed", "snapshot"])
def test_an_altered_table_stays_altered_when_a_policy_is_set(
    shared_lake: lw.Lake, table: str, isolation: str
) -> None:
    with shared_lake.transaction(isolation=isolation) as tx:
        tx.alter(table).add_column("note", "string")
        shared_lake.set_policy(table, {"compression": "zstd"})
        append(shared_lake, table, {"id": [5]})
        tx.delete(table, where="id = 4")
        tx.append(table, {"id": [6], "note": ["new"]})
    rows = shared_lake.table(table).to_arrow().to_pylist()
    assert {r["id"]: r["note"] for r in rows} == {
        **dict.fromkeys((1, 2, 3, 5)),
        6: "new",
    }
