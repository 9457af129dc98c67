"""R8: a disk that is full or failing, at every write, sync and change of a name."""

from __future__ import annotations

import logging
import os
import resource
import socket
import struct
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Final

import pytest

import lakeward as lw
from lakeward.errors import LakewardError, OutcomeUnknown
from lakeward.log.drivers.nearby import STORE_FILE
from tests.support import processes
from tests.support.disk import CALLS, Fault, patched, traced, why_not_traced
from tests.support.invariants import check_lake, check_nothing_torn, transaction_ids
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow

TABLES: Final = ("left", "right")
_MOST: Final = 1000
ERRORS: Final = {"write": "ENOSPC", "sync": "EIO", "name": "EIO"}
_REASONS: Final = (
    "No space left",
    "Input/output error",
    "disk I/O error",
    "disk is full",
    "too large",
    # SQLite's own words where a file beside the store cannot be opened.
    "readonly database",
    "unable to open",
)


@dataclass
class Record:
    """What a lake's clients were told, and what then was true."""

    told: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    runs: int = 0


@sizes("stride", short=11, full=1)
@pytest.mark.parametrize("group", CALLS)
@pytest.mark.parametrize("means", ["strace", "python"])
def test_each_single_failure_is_reported_and_passes(
    lake_target: LakeTarget,
    tmp_path: Path,
    store: str,
    means: str,
    group: str,
    stride: int,
) -> None:
    record = Record()
    for when in range(1, _MOST, stride):
        fault = Fault(group, ERRORS[group], str(when))
        told = run(lake_target, fault, means, tmp_path, record)
        if not fault.hits:
            break
        # What is not hit succeeds.
        assert len(told) - told.count("done") <= len(fault.hits)
    else:
        pytest.fail("there is no end to the calls")
    assert record.runs > 1
    if means == "strace" and store == "sqlite" and group == "write":
        # The store's own COMMIT was hit too.
        assert record.hits["pwrite64"]
    report(f"{store}, {means}: one {group} fails", record)


@sizes("steps", short=(2, 7), full=(2, 3, 5, 7, 11, 13, 17, 19))
@pytest.mark.parametrize("group", CALLS)
def test_every_nth_failure_is_reported_and_passes(
    lake_target: LakeTarget,
    tmp_path: Path,
    store: str,
    group: str,
    steps: tuple[int, ...],
) -> None:
    record = Record()
    for step in steps:
        fault = Fault(group, ERRORS[group], f"{step}+{step}")
        run(lake_target, fault, "strace", tmp_path, record)
        if not fault.hits:
            # There are fewer calls than that.
            assert step > min(steps)
            break
    report(f"{store}, strace: every n-th {group} fails, n in {steps}", record)


@sizes("stride", short=12, full=1)
def test_full_disk_fails_every_commit_clearly_until_there_is_space(
    lake_target: LakeTarget, tmp_path: Path, store: str, stride: int
) -> None:
    record = Record()
    for first in range(1, _MOST, stride):
        fault = Fault("write", "ENOSPC", f"{first}+")
        run(lake_target, fault, "strace", tmp_path, record)
        if not fault.hits:
            break
    else:
        pytest.fail("there is no end to the calls")
    assert record.told["failed"]
    report(f"{store}, strace: disk full from the n-th write on", record)


def test_store_that_cannot_grow_fails_clearly_and_works_when_it_can_again(
    tmp_path: Path,
) -> None:
    """Needs no strace: a limit on the size of files stands in for the full disk."""
    target = LakeTarget(str(tmp_path / "lake"), tmp_path / "lake")
    with target.open() as lake:
        for name in TABLES:
            lake.create(name, {"label": "string"})
    worker = processes.start(commit_into_a_limit, target)
    told, foreign = worker.finish()[-1]
    assert not foreign, foreign[0]
    assert set(told.values()) > {"done"}
    assert told["last"] == "done"
    with target.open() as lake:
        rows = check_lake(lake, TABLES)
        found = transaction_ids(lake, "left")[1:]
        assert {label for label, what in told.items() if what == "done"} <= set(found)
        assert not {label for label, what in told.items() if what == "failed"} & set(found)
        assert rows["left"] == Counter((label,) for label in found)


def run(
    target: LakeTarget,
    fault: Fault,
    means: str,
    directory: Path,
    record: Record,
) -> list[str]:
    """Commit in a process with a fault, and then check the lake without; what the process was told.

    An acknowledged commit is there, a failed one is not, and an unknown one is what the log says.
    """
    if means == "strace" and (reason := why_not_traced()) is not None:
        pytest.skip(reason)
    with target.open() as lake:
        namespace = f"run{record.runs}"
        tables = [f"{namespace}.{name}" for name in TABLES]
        for name in tables:
            lake.create(name, {"label": "string"}, policy={"checkpoint_interval": 2})
    worker = processes.start(
        commit_with_fault, target, tables, fault if means == "python" else None
    )
    worker.hear()
    with traced(worker.pid, fault, directory) if means == "strace" else nullcontext():
        worker.tell("go")
        said = worker.finish()
    assert worker.process.exitcode == 0
    told, foreign, hits = said[-1]
    fault.hits = fault.hits or hits
    assert not foreign, foreign[0]
    record.told.update(told.values())
    record.hits.update(fault.hits)
    out = list(told.values())

    check_nothing_torn(target.warehouse)
    with target.open() as lake:
        tables += check_made(lake, f"{namespace}.made", told.pop("made"))
        rows = check_lake(lake, tables)
        found = transaction_ids(lake, tables[0])[1:]
        for label, what in told.items():
            if what == "unknown":
                assert lake.outcome(label).committed is (label in found)
            else:
                assert (label in found) is (what == "done"), (fault, label, what)
        assert all(rows[name] == Counter((label,) for label in found) for name in tables[:2])
        for name in tables:
            lake.drop(name)
    record.runs += 1
    return out


def check_made(lake: lw.Lake, name: str, what: str) -> list[str]:
    """A table is whole or not there at all, and then it can be made."""
    there = name in [table.name for table in lake.tables()]
    if what != "unknown":
        assert there is (what == "done")
    if not there:
        lake.create(name, {"label": "string"})
    return [name]


def commit_with_fault(
    pipe: Connection, target: LakeTarget, tables: list[str], fault: Fault | None
) -> None:
    logging.disable()
    lake = target.open()
    namespace = tables[0].partition(".")[0]
    told, foreign, hits = dict[str, str](), list[str](), list[str]()

    def commit(label: str) -> None:
        attempt(label, partial(append, lake, tables, label), told, foreign)

    # The first commit and table load what is loaded late: imports are not what is tested here.
    commit(f"{namespace}-warm")
    lake.create(f"{namespace}.warm", {"label": "string"})
    lake.drop(f"{namespace}.warm")
    pipe.send("ready")
    pipe.recv()
    if fault is not None:
        hits = patched(fault)
    commit(f"{namespace}-first")
    make = partial(lake.create, f"{namespace}.made", {"label": "string"})
    attempt("made", make, told, foreign)
    commit(f"{namespace}-second")
    commit(f"{namespace}-third")
    send_unhurt(pipe, (told, foreign, hits))


def append(lake: lw.Lake, tables: list[str], label: str) -> None:
    with lake.transaction(transaction_id=label) as tx:
        for name in tables:
            tx.append(name, [{"label": label}])


def attempt(
    label: str, action: Callable[[], Any], told: dict[str, str], foreign: list[str]
) -> None:
    """Do something, and note what came of it."""
    try:
        action()
    except OutcomeUnknown:
        told[label] = "unknown"
    except LakewardError as error:
        told[label] = "failed"
        if not any(reason in str(error) for reason in _REASONS):
            foreign.append(f"not a clear reason: {error!r}")
    except BaseException:  # noqa: BLE001  whatever it is, it is not of our tree
        foreign.append(traceback.format_exc())
    else:
        told[label] = "done"


def send_unhurt(pipe: Connection, message: Any) -> None:
    """Send by a call that does not fail."""
    data = bytes(ForkingPickler.dumps(message))
    with socket.socket(fileno=os.dup(pipe.fileno())) as connection:
        connection.sendall(struct.pack("!i", len(data)) + data)


def commit_into_a_limit(pipe: Connection, target: LakeTarget) -> None:
    logging.disable()
    lake = target.open()
    told, foreign = dict[str, str](), list[str]()
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Neither the store nor its write-ahead log, which SQLite empties into it, may grow further.
    limit = (target.warehouse / STORE_FILE).stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    for number in range(20):
        label = f"limited{number}"
        attempt(label, partial(append, lake, list(TABLES), label), told, foreign)
        if sum(what != "done" for what in told.values()) == 2:
            break
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    attempt("last", partial(append, lake, list(TABLES), "last"), told, foreign)
    pipe.send((told, foreign))


def report(what: str, record: Record) -> None:
    print(
        f"\nR8 {what}: {record.runs} runs, {sum(record.hits.values())} failed calls"
        f" {dict(record.hits)}, clients told {dict(record.told)}, nothing half-written"
    )
