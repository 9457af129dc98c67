"""History: what happened, when, by whom, and what it did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput
from tests.behaviour.lakes import append, delete, overwrite


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    table = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, 2, 3]})
    delete(shared_lake, name, "id = 2")
    overwrite(shared_lake, name, {"id": [9]})
    return table


def test_history_is_newest_first_and_gap_free(table: lw.Table) -> None:
    history = table.history()

    assert [v.version for v in history] == [3, 2, 1, 0]
    assert [v.operation for v in history] == ["WRITE", "DELETE", "WRITE", "CREATE TABLE"]
    assert [v.parameters.get("mode") for v in history] == ["Overwrite", None, "Append", None]


def test_history_tells_who_and_what(shared_lake: lw.Lake, table: lw.Table) -> None:
    with shared_lake.transaction(message="because") as tx:
        tx.append(table.name, {"id": [4, 5]})
    newest = table.history(limit=1)[0]

    assert newest.message == "because"
    assert newest.transaction_id == tx.transaction_id
    assert newest.actor
    assert newest.engine.startswith("Lakeward/")
    assert newest.metrics["numOutputRows"] == 2
    assert newest.metrics["numFiles"] == 1
    assert newest.metrics["numOutputBytes"] == sum(f.size for f in table.diff(3, 4).added_files)
    assert (newest.members, newest.attempts, newest.adopted) == (1, 1, False)


def test_timestamps_always_increase(table: lw.Table) -> None:
    times = [v.timestamp for v in reversed(table.history())]

    assert times == sorted(set(times))
    assert all(t.tzinfo is not None for t in times)
    assert abs(datetime.now(UTC) - times[-1]) < timedelta(minutes=5)


@pytest.mark.parametrize(
    ("options", "versions"),
    [
        ({"limit": 2}, [3, 2]),
        ({"limit": 0}, []),
        ({"limit": 99}, [3, 2, 1, 0]),
        ({"since": 2}, [3, 2]),
        ({"until": 1}, [1, 0]),
        ({"since": 1, "until": 2}, [2, 1]),
        ({"since": 1, "limit": 1}, [3]),
        ({"since": 3, "until": 1}, []),
        ({"since": 0}, [3, 2, 1, 0]),
    ],
    ids=str,
)
def test_history_can_be_cut(table: lw.Table, options: dict[str, int], versions: list[int]) -> None:
    assert [v.version for v in table.history(**options)] == versions


def test_versions_of_a_time_range_are_oldest_first(table: lw.Table) -> None:
    times = [v.timestamp for v in reversed(table.history())]

    assert [v.version for v in table.versions()] == [0, 1, 2, 3]
    assert [v.version for v in table.versions(since=times[1])] == [1, 2, 3]
    assert [v.version for v in table.versions(until=times[1])] == [0, 1]
    assert [v.version for v in table.versions(since=times[1], until=times[2])] == [1, 2]
    assert [v.version for v in table.versions(since=times[3].isoformat())] == [3]
    assert table.versions(until=times[0] - timedelta(milliseconds=1)) == []


def test_the_audit_trail_follows_the_commits(table: lw.Table) -> None:
    entries = list(table.audit())

    assert [(e.version, e.action) for e in entries] == [
        (0, "CREATE TABLE"),
        (1, "WRITE"),
        (2, "DELETE"),
        (3, "WRITE"),
    ]
    assert len({e.hash for e in entries}) == 4


def test_totals_count_files_bytes_and_rows(table: lw.Table) -> None:
    assert table.totals().rows == 1
    assert table.totals().files == 1
    before = table.at(version=1).totals()
    assert (before.files, before.rows) == (1, 3)
    assert before.bytes == table.at(version=1).files()[0].size


def test_a_negative_limit_is_refused(table: lw.Table) -> None:
    with pytest.raises(InvalidInput):
        table.history(limit=-1)


def test_stats_count_the_whole_lake(lake: lw.Lake) -> None:
    assert (lake.stats().tables, lake.stats().versions) == (0, 0)
    lake.create("a", {"id": "int64"})
    lake.create("b", {"id": "int64"})
    append(lake, "a", {"id": [1]})
    before = lake.stats()

    append(lake, "a", {"id": [2]})

    assert (before.tables, before.versions) == (2, 3)
    assert lake.stats().versions == 4
    assert lake.stats().entries > before.entries
