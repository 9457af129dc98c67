"""`lake.transactions()`: who works or worked on the lake, and what became of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, TransactionNotFound
from lakeward.model.commit import TransactionState
from tests.behaviour.lakes import append
from tests.support.inside import context_of


@pytest.fixture
def pair(lake: lw.Lake) -> lw.Lake:
    for name in ("left", "right"):
        lake.create(name, {"id": "int64"})
    return lake


def test_every_state_is_told(pair: lw.Lake) -> None:
    begun = datetime.now(UTC) - timedelta(seconds=1)
    with pair.transaction(isolation="serializable", message="both") as done:
        done.append("left", {"id": [1]})
        done.append("right", {"id": [1]})
    back = pair.transaction()
    back.append("left", {"id": [2]})
    back.rollback()
    still = pair.transaction(isolation="read_committed")
    still.append("left", {"id": [3]})

    newest = pair.transactions(limit=3)
    assert [(r.transaction_id, r.state.value) for r in newest] == [
        (still.transaction_id, "open"),
        (back.transaction_id, "rolled_back"),
        (done.transaction_id, "ratified"),
    ]
    ratified = newest[2]
    assert ratified.committed
    assert dict(ratified.versions) == {"left": 1, "right": 1}
    assert (ratified.isolation, ratified.message) == ("serializable", "both")
    assert ratified.actor == context_of(pair).actor
    assert ratified.ended is not None
    assert begun < ratified.opened <= ratified.ended
    assert newest[0].ended is None
    assert newest[0].lease_until > newest[0].opened
    assert [dict(r.versions) for r in newest[:2]] == [{}, {}]
    still.rollback()


def test_one_state_alone_and_no_more_than_asked_for(pair: lw.Lake) -> None:
    for number in range(3):
        append(pair, "left", {"id": [number]})
    tx = pair.transaction()
    tx.append("left", {"id": [9]})

    assert [r.transaction_id for r in pair.transactions(state="open")] == [tx.transaction_id]
    ratified = pair.transactions(state="RATIFIED", limit=2)
    assert [r.versions["left"] for r in ratified] == [3, 2]
    tx.rollback()


def test_one_transaction_by_its_id(pair: lw.Lake) -> None:
    with pair.transaction(transaction_id="load-7") as tx:
        tx.append("right", {"id": [1]})
    pair.drop("right")

    found = pair.transaction_record("load-7")
    assert found.state is TransactionState.RATIFIED
    assert dict(found.versions) == {"right": 1}
    with pytest.raises(TransactionNotFound):
        pair.transaction_record("nobody")


@pytest.mark.parametrize("state", ["closed", "", 7])
def test_a_state_that_is_none_is_refused(pair: lw.Lake, state: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        pair.transactions(state=state)
    assert caught.value.parameter == "state"


def test_recent_changes_have_what_each_transaction_did_to_its_tables(pair: lw.Lake) -> None:
    with pair.transaction(message="both") as both:
        both.append("left", {"id": [1, 2]})
        both.append("right", {"id": [1]})
    pair.transaction().rollback()
    pair.table("left").delete(where="id = 2")
    pair.rename("right", "new")

    renamed, deleted, appended, *_ = pair.recent_changes()

    assert [(t.table, t.version, t.changed) for t in deleted.tables] == [("left", 2, (0, 0, 1))]
    assert [t.operation for t in renamed.tables] == ["RENAME TABLE"]
    assert (appended.transaction_id, appended.message) == (both.transaction_id, "both")
    assert (appended.actor, appended.members) == (context_of(pair).actor, 2)
    assert {(t.table, t.version, t.changed) for t in appended.tables} == {
        ("left", 1, (2, 0, 0)),
        ("new", 1, (1, 0, 0)),
    }
    assert pair.recent_changes(limit=1) == [renamed]
    assert pair.recent_changes(since=datetime.now(UTC) + timedelta(hours=1)) == []
    pair.drop("new")
    assert {t.table: t.is_dropped for t in pair.recent_changes(limit=3)[2].tables} == {
        "left": False,
        "new": True,
    }
