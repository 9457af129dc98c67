"""What a conflict tells: which table, from which version to which, who was in the way, and how."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import Conflict
from tests.behaviour.lakes import append
from tests.support.s3 import on_disk


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> str:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, 2]})
    return name


def _lost(tx: lw.Transaction) -> Conflict:
    with pytest.raises(Conflict) as caught:
        tx.commit()
    return caught.value


def _other(lake: lw.Lake, work: Callable[[lw.Transaction], Any]) -> lw.CommitResult:
    with lake.transaction() as tx:
        work(tx)
    return tx.commit()


@pytest.mark.parametrize(
    ("level", "ours", "theirs", "kind"),
    [
        (
            "snapshot",
            lambda tx, name: tx.delete(name, where="id = 1"),
            lambda tx, name: tx.delete(name, where="id = 2"),
            "removed",
        ),
        (
            "snapshot",
            lambda tx, name: tx.delete(name, where="id = 7"),
            lambda tx, name: tx.append(name, {"id": [7]}),
            "added",
        ),
        (
            "serializable",
            lambda tx, name: (tx.read(name, where="id = 7"), tx.append(name, {"id": [8]})),
            lambda tx, name: tx.append(name, {"id": [7]}),
            "read",
        ),
        (
            "serializable",
            lambda tx, name: (tx.read(name, where="id = 1"), tx.append(name, {"id": [8]})),
            lambda tx, name: tx.delete(name, where="id = 1"),
            "read",
        ),
    ],
)
def test_a_conflict_names_the_version_and_the_transaction_in_the_way(
    shared_lake: lw.Lake,
    table: str,
    level: str,
    ours: Callable[[lw.Transaction, str], Any],
    theirs: Callable[[lw.Transaction, str], Any],
    kind: str,
) -> None:
    tx = shared_lake.transaction(isolation=level)
    ours(tx, table)
    append(shared_lake, table, {"id": [1000]})  # in nobody's way
    culprit = _other(shared_lake, lambda other: theirs(other, table))
    append(shared_lake, table, {"id": [1001]})

    error = _lost(tx)
    assert error.kind == kind
    assert (error.table, error.base_version, error.version) == (table, 1, 4)
    assert error.other_version == culprit.versions[table] == 3
    assert error.other_transaction_id == culprit.transaction_id
    assert culprit.transaction_id in str(error)
    assert error.file in str(error)
    assert pickle.loads(pickle.dumps(error)).facts == error.facts


def test_a_conflict_over_a_path_names_who_added_it(shared_lake: lw.Lake, table: str) -> None:
    place = on_disk(shared_lake.table(table).location)
    pq.write_table(pa.table({"id": [5]}), place / "by-hand.parquet")
    tx = shared_lake.transaction()
    tx.add_files(table, ["by-hand.parquet"])
    culprit = _other(shared_lake, lambda other: other.add_files(table, ["by-hand.parquet"]))

    error = _lost(tx)
    assert (error.kind, error.file) == ("path", "by-hand.parquet")
    assert error.other_transaction_id == culprit.transaction_id
