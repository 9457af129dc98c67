"""R7: PostgreSQL killed and started again while clients commit to tables of both formats."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Final

import pytest

from lakeward.errors import OutcomeUnknown, StoreUnavailable
from tests.support import processes
from tests.support.invariants import check_lake, transaction_ids
from tests.support.processes import Worker
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.postgres]

RESUME_SECONDS: Final = 10.0
TABLES: Final = {"one": "delta", "two": "iceberg", "three": "delta"}
_WRITERS: Final = 2


@dataclass(frozen=True)
class Load:
    """How often the server is killed, and how many commits lie between two kills."""

    kills: int
    commits_between: int


@sizes("load", short=Load(3, 10), full=Load(50, 20))
def test_server_killed_again_and_again_loses_nothing_and_work_resumes(
    tmp_path: Path, load: Load
) -> None:
    # Not at the top: it warns, and the worker processes load this module too.
    from tests.support.postgres import Postgres

    told: dict[str, str] = {}
    slowest = 0.0
    with Postgres() as server, server.database() as database:
        target = LakeTarget(server.url(database), tmp_path / "lake")
        with target.open() as lake:
            for name, form in TABLES.items():
                lake.create(name, {"label": "string"}, format=form)
        with processes.started(_WRITERS, commit_until_told, target) as workers:
            for _ in range(load.kills):
                listen(workers, told, load.commits_between)
                server.kill()
                before = time.perf_counter()
                server.start()
                listen(workers, told, 1)
                slowest = max(slowest, time.perf_counter() - before)
            for worker in workers:
                worker.tell("stop")
            for worker in workers:
                told |= dict(worker.finish()[1:])
                assert worker.process.exitcode == 0
        with target.open() as lake:
            rows = check_lake(lake, TABLES)
            found = transaction_ids(lake, "one")[1:]
    for label, what in told.items():
        if what != "unknown":
            assert (label in found) is (what == "acknowledged"), (label, what)
    assert rows == {name: Counter((label,) for label in found) for name in TABLES}
    assert slowest < RESUME_SECONDS
    print(
        f"\nR7 postgres: killed {load.kills} times in {len(found)} commits, nothing lost, told"
        f" {dict(Counter(told.values()))}, work resumed within {slowest:.1f} s"
    )


def test_snapshot_that_cannot_be_unpinned_says_so_and_raises_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from tests.support.postgres import Postgres

    with (
        Postgres() as server,
        server.database() as database,
        LakeTarget(server.url(database), tmp_path / "lake").open() as lake,
    ):
        lake.create("one", {"label": "string"})
        with lake.transaction() as tx:
            tx.append("one", [{"label": "read"}])
        with lake.snapshot() as snapshot:
            found = snapshot.table("one").to_arrow().to_pylist()
            server.kill()
        server.start()
    assert found == [{"label": "read"}]
    assert "is not released and ends with its lease" in caplog.text


def test_a_transaction_that_was_open_when_the_server_was_killed_is_still_registered(
    tmp_path: Path,
) -> None:
    """Otherwise a vacuum would take its files for leftovers. A server keeps the newest commits in
    memory for up to 200 ms if it is not asked to write them, hence the repetitions."""
    from tests.support.postgres import Postgres

    with Postgres() as server, server.database() as database:
        target = LakeTarget(server.url(database), tmp_path / "lake")
        with target.open() as lake:
            lake.create("one", {"label": "string"})
            for number in range(3):
                tx = lake.transaction()
                tx.append("one", [{"label": str(number)}])
                server.kill()
                server.start()
                with target.open() as other:
                    other.vacuum(unknown=True, retention="0s", force=True)
                tx.commit()
            rows = lake.table("one").to_arrow().to_pylist()
    assert rows == [{"label": str(number)} for number in range(3)]


def commit_until_told(pipe: Connection, number: int, target: LakeTarget) -> None:
    lake = target.open()
    pipe.send("ready")
    pipe.recv()
    labels = (f"writer{number}-{n}" for n in range(1_000_000))
    while not pipe.poll():
        label = next(labels)
        try:
            with lake.transaction(transaction_id=label) as tx:
                for name in TABLES:
                    tx.append(name, [{"label": label}])
        except OutcomeUnknown:
            pipe.send((label, "unknown"))
        except StoreUnavailable:
            pipe.send((label, "failed"))
            time.sleep(0.1)
        else:
            pipe.send((label, "acknowledged"))
    lake.close()


def listen(workers: list[Worker], told: dict[str, str], acknowledged: int) -> None:
    """Note what the workers say until so many commits more were acknowledged."""
    for label, what in messages(workers):
        told[label] = what
        acknowledged -= what == "acknowledged"
        if acknowledged <= 0:
            return


def messages(workers: list[Worker]) -> Iterator[tuple[str, str]]:
    while True:
        for ready in wait([worker.pipe for worker in workers]):
            worker = next(w for w in workers if w.pipe is ready)
            label, what = worker.hear()
            yield label, what
