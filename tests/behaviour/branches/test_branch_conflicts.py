"""What was done on a branch fits one version of its table: it is never made again on another."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation, UnsupportedFeature
from lakeward.model.names import TableName
from tests.behaviour.branches.working import begin, finish, upsert
from tests.behaviour.lakes import append, ids

SETTLING: dict[str, dict[str, Any]] = {
    "read committed": {"isolation": "read_committed"},
    "ours": {"on_conflict": lambda _: "ours"},
    "last writer": {"on_conflict": lw.LastWriterWins(key="id")},
    "by table": {"on_conflict": {"t": lambda _: "ours"}},
}


@pytest.mark.formats("delta")
@pytest.mark.local
@pytest.mark.parametrize("options", SETTLING.values(), ids=SETTLING)
def test_rows_that_were_inserted_on_a_branch_are_never_lost(
    lake: lw.Lake, options: dict[str, Any]
) -> None:
    lake.create("t", {"id": "int64"})
    append(lake, "t", {"id": [1]})
    tx, branch = begin(lake, "t", **options)
    # What an insert-only MERGE of Spark comes to: new files, after a look at the whole table.
    rows = pa.table({"id": pa.array([5], pa.int64())})
    write_deltalake(branch.location, rows, mode="append")
    tx._view.members[TableName.parse("t")].change.scopes.append(None)
    append(lake, "t", {"id": [2]})

    with pytest.raises(Conflict):
        finish(tx, branch)

    assert ids(lake, "t") == [1, 2]
    assert lake.table("t").version == 2


def test_a_change_without_steps_is_not_made_again(lake: lw.Lake) -> None:
    """Whoever adds files and notes no step must not lose them without a word."""
    lake.create("t", {"id": "int64"})
    append(lake, "t", {"id": [1]})
    tx = lake.transaction(on_conflict=lambda _: "ours")
    member = tx._view.member(TableName.parse("t"), reads=True)
    member.change.added.extend(member.stage({"id": [5]}))
    append(lake, "t", {"id": [2]})
    head = lake.table("t")._head()

    with pytest.raises(UnsupportedFeature, match="cannot be made again on version 2"):
        member.replan(head)

    assert len(member.change.added) == 1
    tx.rollback()


@pytest.mark.formats("delta")
@pytest.mark.local
def test_a_merge_on_a_named_branch_that_only_inserted_has_looked_at_the_table(
    lake: lw.Lake,
) -> None:
    """Else a key that others added meanwhile would be there twice."""
    lake.create("t", {"id": "int64"})
    append(lake, "t", {"id": [1]})
    branch = lake.branch("work", tables=["t"])
    upsert(branch.table("t").location, pa.table({"id": pa.array([5], pa.int64())}))
    append(lake, "t", {"id": [5]})

    assert branch.diff()[0].conflict is not None
    with pytest.raises(Conflict):
        branch.publish()

    assert ids(lake, "t") == [1, 5]


@pytest.mark.formats("delta")
@pytest.mark.local
def test_rows_appended_on_a_named_branch_meet_no_conflict(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    append(lake, "t", {"id": [1]})
    branch = lake.branch("work", tables=["t"])
    rows = pa.table({"id": pa.array([5], pa.int64())})
    write_deltalake(branch.table("t").location, rows, mode="append")
    append(lake, "t", {"id": [5]})
    branch.publish()

    assert ids(lake, "t") == [1, 5, 5]


@pytest.mark.formats("delta")
@pytest.mark.local
def test_a_named_branch_with_rows_under_another_day_is_refused(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64", "ts": "timestamp"}, partition_by=["day(ts)"])
    branch = lake.branch("work", tables=["t"])
    moment = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)
    columns = {
        "id": pa.array([1], pa.int64()),
        "ts": pa.array([moment], pa.timestamp("us", "UTC")),
        "ts_day": ["2025-12-31"],
    }
    upsert(branch.table("t").location, pa.table(columns))

    with pytest.raises(ConstraintViolation, match=r"ts_day .* is generated as day\(ts\)"):
        branch.publish()
    assert lake.table("t").version == 0
