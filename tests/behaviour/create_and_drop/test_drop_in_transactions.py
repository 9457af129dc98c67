"""Tables dropped in transactions: with the commit, together with the rest, or not at all."""

from __future__ import annotations

from typing import NoReturn

import pytest

import lakeward as lw
from lakeward.errors import Conflict, InvalidInput, TableNotFound
from lakeward.model.commit import TransactionState
from lakeward.model.names import TableName
from tests.behaviour.lakes import append, ids
from tests.support.inside import context_of

FORMATS = ("delta", "iceberg")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_goes_with_the_commit(lake: lw.Lake, kind: str) -> None:
    lake.create("old", {"id": "int64"}, format=kind)
    lake.create("other", {"id": "int64"})
    with lake.transaction() as tx:
        tx.append("old", [{"id": 1}])
        tx.append("other", [{"id": 2}])
        tx.drop("old")
        with pytest.raises(TableNotFound):
            tx._view.member(TableName.parse("old"), reads=True)
        assert lake.table("old").version == 0
    with pytest.raises(TableNotFound):
        lake.table("old")
    assert ids(lake, "other") == [2]
    lake.create("old", {"n": "int64"}, format=kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_rolled_back_or_failed_nothing_is_dropped(lake: lw.Lake, kind: str) -> None:
    table = lake.create("t", {"id": "int64"}, format=kind)
    tx = lake.transaction()
    tx.drop("t")
    tx.rollback()
    assert table.version == 0

    def fail(_: object) -> NoReturn:
        message = "not now"
        raise RuntimeError(message)

    tx = lake.transaction()
    tx.drop("t")
    # In the same database transaction, after the table was marked.
    tx.on_ratify(fail)
    with pytest.raises(RuntimeError):
        tx.commit()
    assert table.version == 0
    table.append([{"id": 1}])
    assert ids(lake, "t") == [1]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_transaction_that_only_drops_tables_is_committed(lake: lw.Lake, kind: str) -> None:
    lake.create("t", {"id": "int64"}, format=kind)
    spans: list[str] = []

    class Tracer:
        """Notes how transactions end."""

        def begin(self, *_: object) -> None: ...

        def step(self, *_: object, **__: object) -> None: ...

        def end(self, _: str, state: str, *__: object, **___: object) -> None:
            spans.append(state)

    context_of(lake).events.tracer = Tracer()  # type: ignore[assignment]  # what is used of one
    with lake.transaction(transaction_id="drop-1") as tx:
        tx.drop("t")

    assert tx._lifecycle.state is TransactionState.RATIFIED
    assert spans == ["ratified"]
    assert lake.outcome("drop-1").committed
    assert tx.commit().transaction_id == "drop-1"
    assert lake.tables() == []


@pytest.mark.parametrize("kind", FORMATS)
def test_a_serializable_drop_minds_rows_that_came_after_it_read(lake: lw.Lake, kind: str) -> None:
    lake.create("t", {"id": "int64"}, format=kind)
    tx = lake.transaction(isolation="serializable")
    assert tx.read("t").num_rows == 0
    tx.drop("t")
    append(lake, "t", [{"id": 1}])

    with pytest.raises(Conflict) as caught:
        tx.commit()

    assert (caught.value.kind, caught.value.table) == ("read", "t")
    assert ids(lake, "t") == [1]


def test_a_serializable_drop_of_a_table_that_it_read_and_changed_is_committed(
    lake: lw.Lake,
) -> None:
    lake.create("t", {"id": "int64"})
    with lake.transaction(isolation="serializable") as tx:
        tx.read("t")
        tx.append("t", [{"id": 1}])
        tx.drop("t")
    assert lake.tables() == []


@pytest.mark.parametrize("isolation", ["snapshot", "read_committed"])
def test_other_levels_drop_tables_that_others_changed(lake: lw.Lake, isolation: str) -> None:
    lake.create("t", {"id": "int64"})
    tx = lake.transaction(isolation=isolation)
    tx.read("t")
    tx.drop("t")
    append(lake, "t", [{"id": 1}])
    tx.commit()
    assert lake.tables() == []


def test_a_table_that_a_foreign_key_refers_to_stays_unless_both_go(lake: lw.Lake) -> None:
    lake.create("parent", {"id": "int64"}, constraints={"key": lw.Unique("id")})
    reference = {"of": lw.ForeignKey("id", references="parent")}
    lake.create("child", {"id": "int64"}, constraints=reference)
    with pytest.raises(InvalidInput, match="child"), lake.transaction() as tx:
        tx.drop("parent")
    assert lake.table("parent").version == 0
    with lake.transaction() as tx:
        tx.drop("parent")
        tx.drop("child")
    assert lake.tables() == []
