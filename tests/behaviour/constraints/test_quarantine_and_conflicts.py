"""Rows that were quarantined before a conflict go with the change that they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakeward as lw
from tests.behaviour.lakes import append, data_files, ids
from tests.support.invariants import check_lake


def _rows(*pairs: tuple[int, int]) -> list[dict[str, Any]]:
    return [{"id": i, "v": v} for i, v in pairs]


@pytest.fixture
def lakes(lake: lw.Lake, make_lake: Callable[..., lw.Lake]) -> lw.Lake:
    """A lake in which another process updates the table before the first commit."""
    check = lw.Check("v >= 0", on_violation="quarantine")
    lake.create("t", "id int64, v int64", constraints={"positive": check})
    append(lake, "t", _rows((1, 1), (2, 1)))
    other = make_lake()

    def meanwhile(_: object) -> None:
        lake.hooks.remove(hook)
        with other.transaction() as tx:
            tx.update("t", set={"v": "7"}, where="id = 1")

    hook = lake.hooks.before_commit(meanwhile)
    return lake


def _commit(lake: lw.Lake, answer: Any, *, asides: bool = False) -> lw.CommitResult:
    tx = lake.transaction(on_conflict=lambda _: answer)
    if asides:
        tx.append("t__quarantine", [{"id": 77, "v": 0, **dict.fromkeys(_ABOUT, "mine")}])
    tx.append("t", _rows((9, -9), (10, 10)))
    tx.delete("t", where="id = 1")
    return tx.commit()


_ABOUT = ("_constraint", "_reason", "_transaction")


def test_rows_of_a_change_that_is_dropped_are_not_quarantined(lakes: lw.Lake) -> None:
    result = _commit(lakes, "theirs")

    assert result.versions == {}
    assert ids(lakes, "t") == [1, 2]
    assert ids(lakes, "t__quarantine") == []
    assert lakes.violations() == []
    assert data_files(lakes, "t__quarantine") == set()
    check_lake(lakes, ["t", "t__quarantine"])


def test_only_rows_of_the_replacing_change_are_quarantined(lakes: lw.Lake) -> None:
    result = _commit(lakes, lw.Replace(_rows((20, 20), (21, -21)), where="id >= 20"))

    assert set(result.versions) == {"t", "t__quarantine"}
    assert ids(lakes, "t") == [1, 2, 20]
    assert ids(lakes, "t__quarantine") == [21]
    assert [(v.constraint, v.count) for v in lakes.violations()] == [("positive", 1)]
    check_lake(lakes, ["t", "t__quarantine"])


def test_what_the_transaction_wrote_to_the_quarantine_itself_stays(lakes: lw.Lake) -> None:
    names = ("id int64", "v int64", *(f"{name} string" for name in _ABOUT))
    lakes.create("t__quarantine", ", ".join(names))

    result = _commit(lakes, "theirs", asides=True)

    assert set(result.versions) == {"t__quarantine"}
    assert ids(lakes, "t__quarantine") == [77]
    assert lakes.violations() == []
    aside = lakes.table("t__quarantine")
    assert data_files(lakes, "t__quarantine") == {f.path for f in aside.files()}
    check_lake(lakes, ["t", "t__quarantine"])
