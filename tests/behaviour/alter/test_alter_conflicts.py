"""Writers that began before a table was altered go on, if their rows fit the new definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import Conflict
from lakeward.lake.altering import TableAlter
from tests.behaviour.lakes import append
from tests.support.tables import table_of

_TABLE = table_of("id int32, amount float, note string").rows([{"id": 1, "amount": 1, "note": "a"}])
Ask = Callable[[TableAlter], Any]


@pytest.fixture
def made(lake: lw.Lake, name: str, table_format: str) -> lw.Table:
    """A table of one row."""
    return _TABLE.make(lake, name, format=table_format)


def _all(alter: TableAlter) -> Any:
    return (
        alter.add_column("x", "int64", default="7")
        .add_column("y", "string", first=True)
        .set_comment("id", "key")
        .set_property("owner", "me")
        .move_column("note", after="id")
    )


def test_an_append_passes_compatible_changes(lake: lw.Lake, made: lw.Table) -> None:
    tx = lake.transaction()
    tx.append(made.name, [{"id": 2, "amount": 2, "note": "b"}])
    _all(made.alter()).commit()
    tx.commit()
    assert made.version == 3
    found = made.to_arrow(where="id = 2").to_pylist()
    assert found == [{"y": None, "id": 2, "note": "b", "amount": 2.0, "x": None}]
    append(lake, made.name, [{"id": 3, "amount": 3, "note": "c"}])
    assert made.to_arrow(where="x = 7")["id"].to_pylist() == [3]
    assert made.at(version=3).schema == made.schema


def test_a_transaction_that_reads_after_it_appended_sees_the_new_schema(
    lake: lw.Lake, made: lw.Table
) -> None:
    with lake.transaction() as tx:
        tx.append(made.name, [{"id": 2, "amount": 2, "note": "b"}])
        _all(made.alter()).commit()
        assert tx.read(made.name).column_names == ["y", "id", "note", "amount", "x"]
        tx.append(made.name, [{"id": 3, "amount": 3, "note": "c", "y": "new"}])
    assert made.to_arrow(columns=["id", "y", "x"]).to_pylist() == [
        {"id": 1, "y": None, "x": None},
        {"id": 2, "y": None, "x": None},
        {"id": 3, "y": "new", "x": 7},
    ]


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda a: a.set_not_null("note"), "made column note required"),
        (lambda a: a.add_constraint("few", "id < 100"), "added the check few"),
    ],
)
def test_an_append_that_was_not_checked_conflicts_and_names_the_column(
    lake: lw.Lake, made: lw.Table, ask: Ask, reason: str
) -> None:
    tx = lake.transaction()
    tx.append(made.name, [{"id": 200, "amount": 2, "note": None}])
    ask(made.alter()).commit()
    with pytest.raises(Conflict, match=reason) as caught:
        tx.commit()
    assert caught.value.kind == "definition"
    assert made.to_arrow().num_rows == 1


@pytest.mark.formats("iceberg")
def test_an_append_conflicts_with_another_partitioning(lake: lw.Lake, made: lw.Table) -> None:
    tx = lake.transaction()
    tx.append(made.name, [{"id": 2, "amount": 2, "note": None}])
    made.alter().add_partition_field("note").commit()
    with pytest.raises(Conflict, match="partitioned the table by note"):
        tx.commit()


def test_row_changes_and_other_alterations_conflict(lake: lw.Lake, made: lw.Table) -> None:
    deleting, altering = lake.transaction(), lake.transaction()
    deleting.delete(made.name, where="id = 1")
    altering.alter(made.name).add_column("z", "int64")
    _all(made.alter()).commit()
    with pytest.raises(Conflict):
        deleting.commit()
    with pytest.raises(Conflict):
        altering.commit()
    assert made.schema.names == ["y", "id", "note", "amount", "x"]
    assert made.to_arrow().num_rows == 1


def test_an_alteration_passes_appends_unless_it_looked_at_rows(
    lake: lw.Lake, made: lw.Table
) -> None:
    plain, looking = lake.transaction(), lake.transaction()
    plain.alter(made.name).add_column("z", "int64")
    looking.alter(made.name).set_not_null("note")
    append(lake, made.name, [{"id": 2, "amount": 2, "note": None}])
    with pytest.raises(Conflict):
        looking.commit()
    plain.commit()
    assert made.to_arrow().num_rows == 2
    assert made.schema.names[-1] == "z"


def test_altering_a_table_is_tried_again_after_a_conflict(lake: lw.Lake, made: lw.Table) -> None:
    done: list[bool] = []

    def interfere(staged: lw.StagedCommit) -> None:
        if not done and "ALTER TABLE" in {t.operation for t in staged.tables.values()}:
            done.append(True)
            append(lake, made.name, [{"id": 2, "amount": 2, "note": "b"}])

    lake.hooks.before_commit(interfere)
    result = made.alter().set_not_null("note").commit()
    assert result.attempts == 2
    assert not made.schema.field("note").nullable


def test_a_stream_goes_on_over_an_alteration(lake: lw.Lake, made: lw.Table) -> None:
    with lake.sink(made.name, writer_id="w") as sink:
        sink.write([{"id": 2, "amount": 2, "note": "b"}])
        sink.commit_epoch(1)
        sink.write([{"id": 3, "amount": 3, "note": "c"}])
        _all(made.alter()).commit()
        sink.commit_epoch(2)
        sink.write([{"id": 4, "amount": 4, "note": "d"}])
        sink.commit_epoch(3)
    assert sorted(made.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
