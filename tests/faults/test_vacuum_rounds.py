"""R10: vacuum against writers, readers and holders of old versions, killed where it hurts most."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import time_machine

import lakeward as lw
from lakeward.maintain.vacuum import kept
from lakeward.model.steps import VACUUM_STEPS
from tests.support import processes
from tests.support.faulty_store import Fault, FaultyStore
from tests.support.iceberg import stranger_arrow
from tests.support.invariants import rows_of, stranger_rows
from tests.support.leases import run_out
from tests.support.s3 import S3Server, on_disk
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

FORMATS = ("delta", "iceberg")
NOW: dict[str, Any] = {"retention": "0s", "force": True}
pytestmark = pytest.mark.slow


@sizes("rounds", short=12, full=1000, hours=6)
def test_vacuum_takes_nothing_that_anything_can_reach(
    lake_target: LakeTarget, make_lake: Callable[..., lw.Lake], rounds: int, tmp_path: Path
) -> None:
    lake = make_lake()
    outside = tmp_path / "outside" / "precious.parquet"
    outside.parent.mkdir()
    outside.write_bytes(b"precious")
    _create(lake)
    for name in FORMATS:
        (on_disk(lake.table(name).location) / "way-out").symlink_to(outside.parent)
    told = _play(lake, lake_target, rounds)
    assert outside.read_bytes() == b"precious"
    print(f"\nR10: {rounds} rounds, {told}")


@pytest.mark.s3
@pytest.mark.parametrize("store", ["s3"])
@sizes("rounds", short=3, full=300, hours=6)
def test_vacuum_on_an_object_store_takes_nothing_that_anything_can_reach(
    lake_target: LakeTarget, make_lake: Callable[..., lw.Lake], rounds: int
) -> None:
    lake = make_lake()
    _create(lake)
    print(f"\nR10 on S3: {rounds} rounds, {_play(lake, lake_target, rounds)}")


@pytest.mark.s3
@pytest.mark.parametrize("store", ["s3"])
@pytest.mark.full
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("rounds", [10, 200])
def test_vacuum_takes_nothing_while_a_third_of_the_answers_fail(
    lake_target: LakeTarget,
    make_lake: Callable[..., lw.Lake],
    s3_server: S3Server,
    rounds: int,
) -> None:
    lake, choose = make_lake(), random.Random(6)
    faults = [*Fault] * 2 + [Fault.INTERNAL, Fault.OVERLOADED, Fault.TOO_MANY] * 9
    _create(lake)
    with FaultyStore(s3_server.port) as proxy:
        proxy.decide = lambda _m, _p: choose.choice(faults) if choose.random() < 0.3 else None
        way = {**s3_server.options(proxy.endpoint), "timeout": "400ms", "connect_timeout": "400ms"}
        told = _play(lake, replace(lake_target, options=way), rounds)
        failed = sum(proxy.happened.values())
        assert failed > proxy.requests / 5
    print(f"\nR10 on S3: {rounds} rounds, {failed} of {proxy.requests} answers failed, {told}")


def _create(lake: lw.Lake) -> None:
    for name in FORMATS:
        policy = {"merge_on_read": True} if name == "delta" else {}
        lake.create(name, "n int64, v int64", format=name, policy=policy)


def _play(lake: lw.Lake, target: LakeTarget, rounds: int) -> str:
    """Vacuum, write and hold versions for some rounds; what happened. `target` is vacuumed."""
    choose = random.Random(10)
    holders, kills, deleted = _Holders(lake, choose), 0, 0
    for number in range(rounds):
        for name in FORMATS:
            _change(lake, name, number, choose)
        holders.change()
        step = choose.choice([*VACUUM_STEPS, "", ""])
        before = _all_files(lake)
        writer = processes.start(_write, target, number)
        vacuum = processes.start(_vacuum, target, step, choose.randrange(1, 3))
        said = vacuum.finish()
        writer.finish()
        kills += vacuum.killed
        assert vacuum.killed or said, "the vacuum failed"
        deleted += len(before - _all_files(lake))
        holders.check()
        if number % 4 == 0:
            _check_strangers(lake, target)
    assert rounds < 10 or deleted > rounds / 4, "vacuums had hardly anything to delete"
    holders.release()
    for _ in range(3):
        if target.place is not None:
            # Object stores stamp files by whole seconds.
            time.sleep(1.1)
        deleted += lake.vacuum(**NOW).plan.files
    for name in FORMATS:
        table = lake.table(name)
        assert _files(table) == _live(table), "beyond what the rules keep"
    _check_strangers(lake, target)
    assert lake.doctor().healthy
    return f"{kills} vacuums killed, {deleted} files deleted, none missing"


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_wrong_makes_vacuum_take_nothing_live(lake: lw.Lake, hours: int) -> None:
    """R9: the host's clock is an hour off while it commits, while it vacuums, or both."""
    for name in FORMATS:
        table = lake.create(name, "n int64", format=name)
        for wrong in (False, True, False):
            shift = timedelta(hours=hours) if wrong else timedelta(0)
            with time_machine.travel(datetime.now(UTC) + shift):
                table.append([{"n": 1}])
                tx = lake.transaction()
                tx.append(name, [{"n": 2}])
                table.overwrite([{"n": 3}])
            table.vacuum(**NOW)
            with time_machine.travel(datetime.now(UTC) - shift):
                table.vacuum(**NOW)
                assert table.to_arrow().to_pylist() == [{"n": 3}]
            tx.commit()
            assert sorted(r["n"] for r in table.to_arrow().to_pylist()) == [2, 3]
            with time_machine.travel(datetime.now(UTC) + timedelta(hours=2 * abs(hours))):
                table.vacuum()
            assert _files(table) >= _live(table)
    assert lake.doctor().healthy


class _Holders:
    """Tags, branches, clones, pins and staged transactions, with the rows that each must show."""

    def __init__(self, lake: lw.Lake, choose: random.Random) -> None:
        self._lake = lake
        self._choose = choose
        self._held: dict[str, tuple[Callable[[], Any], Any, Callable[[], None]]] = {}
        self._staged: list[lw.Transaction] = []
        self._count = 0

    def change(self) -> None:
        """Make a holder, and let an old one go."""
        self._count += 1
        kind = self._choose.choice(["tag", "branch", "clone", "pin", "stage", "abandon"])
        name = f"{kind}{self._count}"
        getattr(self, f"_{kind}")(name, self._choose.choice(FORMATS))
        if len(self._held) > 4:
            gone = self._choose.choice(sorted(self._held))
            self._held.pop(gone)[2]()
        if len(self._staged) > 2:
            self._commit(self._staged.pop(0))

    def check(self) -> None:
        """Whatever is held shows the rows that it had."""
        for name, (read, rows, _) in self._held.items():
            assert rows_of(read()) == rows, name
        for format_name in FORMATS:
            self._lake.table(format_name).to_arrow()

    def release(self) -> None:
        """Let everything go."""
        for tx in self._staged:
            self._commit(tx)
        for _, _, end in self._held.values():
            end()

    def _tag(self, name: str, table: str) -> None:
        self._lake.tag(name)
        found = self._lake.table(table)
        rows = rows_of(found.at(tag=name).to_arrow())
        read = lambda: found.at(tag=name).to_arrow()  # noqa: E731
        self._held[name] = (read, rows, lambda: self._lake.untag(name))

    def _branch(self, name: str, table: str) -> None:
        branch = self._lake.branch(name, tables=[table])
        shown = branch.table(table)
        self._held[name] = (shown.to_arrow, rows_of(shown.to_arrow()), branch.drop)

    def _clone(self, name: str, table: str) -> None:
        clone = self._lake.clone(table, name)
        self._held[name] = (
            clone.to_arrow,
            rows_of(clone.to_arrow()),
            lambda: self._lake.drop(name),
        )

    def _pin(self, name: str, table: str) -> None:
        stack = ExitStack()
        snap = stack.enter_context(self._lake.snapshot())
        read = snap.table(table).to_arrow
        self._held[name] = (read, rows_of(read()), stack.close)

    def _stage(self, _: str, table: str) -> None:
        tx = self._lake.transaction()
        tx.append(table, [{"n": -self._count, "v": 0}])
        self._staged.append(tx)

    def _abandon(self, _: str, table: str) -> None:
        tx = self._lake.transaction()
        tx.append(table, [{"n": -self._count, "v": 0}])
        run_out(self._lake, tx.transaction_id)

    def _commit(self, tx: lw.Transaction) -> None:
        tx.commit()


def _change(lake: lw.Lake, name: str, number: int, choose: random.Random) -> None:
    table = lake.table(name)
    match choose.randrange(4):
        case 0:
            table.overwrite([{"n": i, "v": number} for i in range(20)])
        case 1:
            table.delete(where=f"n = {number % 20}")
        case 2:
            table.update(set={"v": "v + 1"}, where=f"n < {number % 7}")
        case _:
            table.append([{"n": number, "v": number}])


def _write(pipe: Connection, target: LakeTarget, number: int) -> None:
    with target.open() as lake:
        for name in FORMATS:
            lake.table(name).append([{"n": 1000 + number, "v": 0}])
    pipe.send(1)


def _vacuum(pipe: Connection, target: LakeTarget, step: str, occurrence: int) -> None:
    _trust_the_clock()
    if step:
        processes.kill_myself_at(step, occurrence)
    with target.open() as lake:
        pipe.send(lake.vacuum(**NOW, unknown=True).plan.files)


def _trust_the_clock() -> None:
    """Let an open transaction keep the versions of a second before it instead of two hours.

    All processes have one clock here, and otherwise nothing could be deleted beside transactions.
    """
    setattr(kept, "_CLOCKS_DIFFER_MS", 1_000)  # noqa: B010  final, and of this process only


def _check_strangers(lake: lw.Lake, target: LakeTarget) -> None:
    lake.publish()
    for name in FORMATS:
        rows = rows_of(lake.table(name).to_arrow())
        told = stranger_arrow(lake, name) if name == "iceberg" else None
        options = None if target.place is None else target.options
        place = lake.table(name).location
        found = stranger_rows(place, options) if told is None else rows_of(told)
        assert found == rows, name


def _all_files(lake: lw.Lake) -> set[str]:
    return {f"{name}/{path}" for name in FORMATS for path in _files(lake.table(name))}


def _files(table: lw.Table) -> set[str]:
    place = on_disk(table.location)
    return {
        str(p.relative_to(place))
        for p in place.rglob("*")
        if p.suffix in (".parquet", ".bin")
        and not p.is_symlink()
        and not {"_delta_log", "metadata"} & set(p.relative_to(place).parts)
    }


def _live(table: lw.Table) -> set[str]:
    from lakeward.maintain.doctor.file_checks import vector_paths

    out = set()
    for file in table.files():
        out.add(file.path)
        if file.file.deletion_vector is not None:
            out.update(vector_paths(dict(file.file.deletion_vector)))
    return out
