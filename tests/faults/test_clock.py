"""R9: clocks that are an hour ahead or behind, and clocks that step back."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection

import orjson
import pytest
import time_machine

import lakeward as lw
from lakeward.errors import TransactionClosed
from lakeward.model.commit import TransactionState
from tests.support import processes
from tests.support.invariants import check_lake, published_path
from tests.support.leases import run_out
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

HOUR = timedelta(hours=1)
TABLES = ("left", "right")
_SCHEMA = {"n": "int64"}


@pytest.mark.parametrize(
    "shifts",
    [
        pytest.param([HOUR, HOUR], id="an hour ahead"),
        pytest.param([-HOUR, -HOUR], id="an hour behind"),
        pytest.param([HOUR, timedelta(0), -HOUR, -HOUR, HOUR], id="stepping back and forth"),
    ],
)
def test_timestamps_increase_whatever_the_clock_does(
    lake: lw.Lake, shifts: list[timedelta]
) -> None:
    table = lake.create("t", _SCHEMA)
    for shift in [timedelta(0), *shifts, timedelta(0)]:
        with time_machine.travel(datetime.now(UTC) + shift):
            append(lake, "t")
            append(lake, "t")
    check_lake(lake, ["t"])
    check_times(table)
    stamps = [in_commit_timestamp(lake, "t", v.version) for v in table.history()]
    assert stamps == [int(v.timestamp.timestamp() * 1000) for v in table.history()]


@sizes("commits", short=40, full=1000)
@pytest.mark.slow
def test_no_cut_by_time_splits_a_transaction_whatever_the_clocks_do(
    lake: lw.Lake, commits: int, store: str
) -> None:
    """Each commit is made by a clock of its own; the tables' own clocks drift far apart."""
    choose = random.Random(17)
    for name in TABLES:
        lake.create(name, _SCHEMA)
    for _ in range(commits):
        shift = timedelta(milliseconds=choose.randrange(-3_600_000, 3_600_000))
        with time_machine.travel(datetime.now(UTC) + shift):
            append(lake, *choose.choice([TABLES, TABLES[:1], TABLES[1:]]))
    check_lake(lake, TABLES)
    histories = {name: lake.table(name).history() for name in TABLES}
    both = {v.transaction_id: v for v in histories["left"] if v.members == 2}
    for name in TABLES:
        check_times(lake.table(name))
    moments = {v.timestamp for history in histories.values() for v in history}
    first = max(history[-1].timestamp for history in histories.values())
    for moment in sorted(m for m in moments if m >= first):
        for at in (moment - timedelta(milliseconds=1), moment):
            if at < first:
                continue
            cut = lake.snapshot(at=at).versions
            inside = {
                name: {
                    v.transaction_id
                    for v in histories[name]
                    if v.members == 2 and v.version <= cut[name]
                }
                for name in TABLES
            }
            assert inside["left"] == inside["right"]
    assert both
    print(f"\nR9 {store}: {commits} commits by clocks up to an hour off, {len(moments)} cuts whole")


@pytest.mark.slow
@sizes("commits", short=8, full=250)
def test_processes_with_different_clocks_share_one_growing_time(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], commits: int, store: str
) -> None:
    make_lake().create("t", _SCHEMA)
    with processes.started(4, append_by_another_clock, lake_target, commits) as workers:
        for worker in workers:
            worker.finish()
            assert worker.process.exitcode == 0
    lake = make_lake()
    assert lake.table("t").version == 4 * commits
    check_lake(lake, ["t"])
    check_times(lake.table("t"))
    print(f"\nR9 {store}: {4 * commits} commits by 4 processes, clocks up to an hour off: in order")


@pytest.mark.postgres
@pytest.mark.parametrize("shift", [HOUR, -HOUR], ids=["ahead", "behind"])
def test_lease_on_a_server_does_not_end_by_another_hosts_clock(
    postgres_url: str, tmp_path_factory: pytest.TempPathFactory, shift: timedelta
) -> None:
    target = LakeTarget(postgres_url, tmp_path_factory.mktemp("lake"))
    with target.open() as lake:
        lake.create("t", _SCHEMA)
        with lake.transaction() as tx:
            tx.append("t", [{"n": 1}])
            with time_machine.travel(datetime.now(UTC) + shift):
                target.open().close()
            assert tx.outcome().state is TransactionState.OPEN
        assert tx.commit().versions == {"t": 1}


@pytest.mark.postgres
def test_lease_on_a_server_ends_by_the_servers_clock(
    postgres_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The lease that the test above finds alive can end: what it shows is not an empty promise."""
    target = LakeTarget(postgres_url, tmp_path_factory.mktemp("lake"))
    with target.open() as lake:
        lake.create("t", _SCHEMA)
        tx = lake.transaction()
        tx.append("t", [{"n": 1}])
        run_out(lake, tx.transaction_id)
        target.open().close()
        assert tx.outcome().state is TransactionState.EXPIRED
        with pytest.raises(TransactionClosed):
            tx.commit()
        assert lake.table("t").version == 0


def test_clock_of_the_stores_own_host_that_steps_ahead_refuses_or_commits_but_loses_nothing(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], store: str
) -> None:
    """On SQLite the host's clock measures leases: a step may end one, and then nothing is left."""
    lake = make_lake()
    lake.create("t", _SCHEMA)
    append(lake, "t")
    tx = lake.transaction()
    tx.append("t", [{"n": 2}])
    with time_machine.travel(datetime.now(UTC) + HOUR):
        lake_target.open().close()
        if store == "sqlite":
            assert tx.outcome().state is TransactionState.EXPIRED
            with pytest.raises(TransactionClosed, match="lease"):
                tx.commit()
        else:
            assert tx.commit().versions == {"t": 2}
    append(lake, "t")
    rows = check_lake(lake, ["t"])
    assert sum(rows["t"].values()) == (2 if store == "sqlite" else 3)


def append(lake: lw.Lake, *names: str) -> None:
    with lake.transaction() as tx:
        for name in names:
            tx.append(name, [{"n": 1}])


def append_by_another_clock(
    pipe: Connection, number: int, target: LakeTarget, commits: int
) -> None:
    lake = target.open()
    choose = random.Random(number)
    shift = (HOUR, -HOUR, timedelta(0), None)[number]
    pipe.send("ready")
    pipe.recv()
    for _ in range(commits):
        # The last one's clock steps all the time.
        step = timedelta(seconds=choose.randrange(-3600, 3600)) if shift is None else shift
        with time_machine.travel(datetime.now(UTC) + step):
            append(lake, "t")


def check_times(table: lw.Table) -> None:
    """Timestamps grow, and asking by time finds what was newest then."""
    history = list(reversed(table.history()))
    for before, version in zip([None, *history], history, strict=False):
        assert table.at(timestamp=version.timestamp).version == version.version
        just_before = version.timestamp - timedelta(milliseconds=1)
        if before is not None:
            assert before.timestamp < version.timestamp
            assert table.at(timestamp=just_before).version == before.version
    last = history[-1]
    assert table.at(timestamp=last.timestamp + HOUR).version == last.version


def in_commit_timestamp(lake: lw.Lake, name: str, version: int) -> int:
    first = published_path(lake, name, version).read_bytes().splitlines()[0]
    stamp: int = orjson.loads(first)["commitInfo"]["inCommitTimestamp"]
    return stamp
