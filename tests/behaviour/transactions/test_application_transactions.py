"""How far an application got, recorded with the very commit that it made."""

from __future__ import annotations

import pytest

import lakeward as lw
from tests.behaviour.lakes import append
from tests.behaviour.published import told


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    return shared_lake.create(name, {"id": "int64"})


def test_progress_is_committed_with_the_rows(shared_lake: lw.Lake, table: lw.Table) -> None:
    assert table.app_version("loader") is None
    for number in (4, 5):
        with shared_lake.transaction() as tx:
            tx.append(table.name, {"id": [number]})
            tx.record(table.name, "loader", number)

    assert table.app_version("loader") == 5
    assert table.app_version("other") is None
    assert table.version == 2


def test_progress_of_a_rolled_back_transaction_is_not_kept(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    tx = shared_lake.transaction()
    tx.record(table.name, "loader", 1)
    tx.rollback()

    assert table.app_version("loader") is None
    assert table.version == 0


def test_applications_do_not_mix(shared_lake: lw.Lake, table: lw.Table) -> None:
    with shared_lake.transaction() as tx:
        tx.record(table.name, "a", 1)
        tx.record(table.name, "b", 2)
    append(shared_lake, table.name, {"id": [1]})

    assert (table.app_version("a"), table.app_version("b")) == (1, 2)
    assert table.version == 2


def test_the_last_number_in_a_transaction_counts(shared_lake: lw.Lake, table: lw.Table) -> None:
    with shared_lake.transaction() as tx:
        tx.record(table.name, "a", 1)
        tx.record(table.name, "a", 2)

    assert table.app_version("a") == 2


def test_progress_is_published_with_the_commit(shared_lake: lw.Lake, table: lw.Table) -> None:
    with shared_lake.transaction() as tx:
        tx.record(table.name, "loader", 2**53)
    append(shared_lake, table.name, {"id": [1]})

    found = [c.applications for c in told(shared_lake, table.name)]
    assert found == [{"loader": 2**53}, {}]
