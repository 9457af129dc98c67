"""R2: many processes that commit at once, to one table or to several of both formats together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Literal

import pytest

import lakeward as lw
from lakeward.errors import LakewardError
from tests.support import processes
from tests.support.invariants import check_lake
from tests.support.linearizability import Operation, porcupine_accepts, violation
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Load:
    """How many processes, and how much each does."""

    writers: int
    commits: int
    porcupine: bool = False


@sizes("load", short=Load(8, 15), full=Load(8, 250, porcupine=True))
@pytest.mark.parametrize(
    "formats", [("delta",), ("iceberg",), ("delta", "iceberg", "delta")], ids="+".join
)
def test_many_writers_get_gap_free_versions_in_real_time_order(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], formats: tuple[str, ...], load: Load
) -> None:
    """Tables that always change together are one log to whoever looks at them together."""
    lake = make_lake()
    tables = [f"busy{number}" for number in range(len(formats))]
    for name, form in zip(tables, formats, strict=True):
        lake.create(name, {"writer": "int64", "n": "int64"}, format=form)
    with processes.started(load.writers, write, lake_target, tables, load.commits) as workers:
        before = time.perf_counter()
        said = [worker.finish() for worker in workers]
        elapsed = time.perf_counter() - before
    history = [o for messages in said for o in messages[-1] if isinstance(o, Operation)]
    mine = [o for o in history if o.kind == "commit"]

    assert violation(history) is None
    assert [o for messages in said for o in messages[-1] if isinstance(o, str)] == []
    assert len(mine) == load.writers * load.commits
    wanted = Counter((n, writer) for writer in range(load.writers) for n in range(load.commits))
    assert check_lake(make_lake(), tables) == dict.fromkeys(tables, wanted)
    slowest = max(o.returned - o.called for o in mine) / 1e6
    print(
        f"\nR2 {'postgres' if lake_target.is_postgres else 'sqlite'} {'+'.join(formats)}:"
        f" {len(mine)} commits by {load.writers} processes in {elapsed:.1f} s"
        f" ({len(mine) / elapsed:.0f}/s), slowest {slowest:.0f} ms,"
        f" {len(history) - len(mine)} reads, linearizable"
    )
    if load.porcupine:
        assert porcupine_accepts(history)
        print("R2: Porcupine agrees")


def write(
    pipe: Connection, number: int, target: LakeTarget, tables: list[str], commits: int
) -> None:
    """Append and read in turn; in the end tell all operations, and all failures as text."""
    lake = target.open()
    done: list[Operation | str] = []
    pipe.send("ready")
    pipe.recv()
    for n in range(commits):
        called = time.monotonic_ns()
        try:
            with lake.transaction() as tx:
                for name in tables:
                    tx.append(name, [{"writer": number, "n": n}])
        except LakewardError as error:
            done.append(f"append {n} of writer {number} failed: {error!r}")
            continue
        versions = tx.commit().versions
        done.append(operation(number, "commit", versions, tables, called))
        called = time.monotonic_ns()
        versions = lake.snapshot().versions
        done.append(operation(number, "read", versions, tables, called))
    pipe.send(done)


def operation(
    number: int,
    kind: Literal["commit", "read"],
    versions: Mapping[str, int],
    tables: list[str],
    called: int,
) -> Operation | str:
    """What was done to all tables at once, or what is wrong with it."""
    found = {versions[name] for name in tables}
    if len(found) > 1:
        return f"a {kind} of writer {number} split a transaction: {dict(versions)}"
    return Operation(number, kind, found.pop(), called, time.monotonic_ns())


# The checkers themselves: a checker that finds nothing proves nothing.


def good_history() -> list[Operation]:
    """Three clients; commits overlap, so that only some orders are possible."""
    return [
        Operation(0, "commit", 1, 0, 10),
        Operation(1, "commit", 3, 5, 40),
        Operation(2, "commit", 2, 8, 20),
        Operation(0, "read", 1, 11, 19),
        Operation(2, "read", 3, 30, 35),
        Operation(0, "read", 3, 41, 42),
    ]


def bad_histories() -> dict[str, list[Operation]]:
    good = good_history()

    def changed(index: int, **facts: int) -> list[Operation]:
        return [replace(o, **facts) if n == index else o for n, o in enumerate(good)]  # type: ignore[arg-type]

    return {
        "duplicate version": changed(2, version=3),
        "gap": changed(1, version=4),
        "reordered commits": [
            Operation(0, "commit", 2, 0, 10),
            Operation(1, "commit", 1, 20, 30),
        ],
        "stale read": changed(5, version=2),
        "read of what was not yet called": changed(3, version=2, called=1, returned=7),
        "read from the future": changed(5, version=4),
    }


def test_checker_accepts_a_linearizable_history() -> None:
    assert violation(good_history()) is None


@pytest.mark.parametrize("name", bad_histories())
def test_checker_rejects_a_planted_violation(name: str) -> None:
    assert violation(bad_histories()[name]) is not None


@pytest.mark.full
@pytest.mark.parametrize("name", [None, *bad_histories()])
def test_porcupine_judges_as_our_checker_does(name: str | None) -> None:
    history = good_history() if name is None else bad_histories()[name]
    assert porcupine_accepts(history) is (violation(history) is None)
