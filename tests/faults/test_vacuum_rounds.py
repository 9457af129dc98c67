"""R10: vacuum against writers, readers and holders of old versions, killed where it hurts most."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import time_machine

import lakeward as lw
from lakeward.model.steps import VACUUM_STEPS
from tests.faults.vacuum_actors import FORMATS, NOW, Holders, change, vacuum, write, written
from tests.support import processes
from tests.support.faulty_store import Fault, FaultyStore
from tests.support.iceberg import stranger_arrow
from tests.support.inside import context_of
from tests.support.invariants import rows_of, stranger_rows
from tests.support.s3 import S3Server, on_disk
from tests.support.target import LakeTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FULL = [pytest.mark.full, pytest.mark.timeout(3 * 3600)]
_WRITER_STEPS = ("transaction.opened", "stage.done", "iceberg.prepared", "ratify.inserted")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [10])
def test_vacuum_takes_nothing_that_anything_can_reach(
    lake_target: LakeTarget, make_lake: Callable[..., lw.Lake], tmp_path: Path, seed: int
) -> None:
    _play_beside_links(make_lake(), lake_target, 12, seed, tmp_path)


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.timeout(3 * 3600)
@pytest.mark.filterwarnings("ignore:unclosed <socket", "ignore:Exception ignored in. <socket")
@pytest.mark.parametrize("seed", range(10))
def test_vacuum_beside_spark_takes_nothing_that_anything_can_reach(
    lake_target: LakeTarget,
    make_lake: Callable[..., lw.Lake],
    tmp_path: Path,
    seed: int,
    spark: SparkSession,
) -> None:
    """The full form: 1,000 rounds, in ten parts that can be run one by one."""
    _play_beside_links(make_lake(), lake_target, 100, seed, tmp_path, spark)


@pytest.mark.s3
@pytest.mark.parametrize("store", ["s3"])
@pytest.mark.parametrize(
    ("rounds", "seed"), [(3, 10), *(pytest.param(100, n, marks=_FULL) for n in range(10))]
)
def test_vacuum_on_an_object_store_takes_nothing_that_anything_can_reach(
    lake_target: LakeTarget, make_lake: Callable[..., lw.Lake], rounds: int, seed: int
) -> None:
    lake = make_lake()
    _create(lake)
    print(f"\nR10 on S3: {rounds} rounds, {_play(lake, lake_target, rounds, seed)}")


@pytest.mark.s3
@pytest.mark.parametrize("store", ["s3"])
@pytest.mark.full
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("seed", range(20))
def test_vacuum_takes_nothing_while_a_third_of_the_answers_fail(
    lake_target: LakeTarget,
    make_lake: Callable[..., lw.Lake],
    s3_server: S3Server,
    seed: int,
) -> None:
    lake, choose = make_lake(), random.Random(seed)
    faults = [*Fault] * 2 + [Fault.INTERNAL, Fault.OVERLOADED, Fault.TOO_MANY] * 9
    _create(lake)
    with FaultyStore(s3_server.port) as proxy:
        proxy.decide = lambda _m, _p: choose.choice(faults) if choose.random() < 0.3 else None
        way = {**s3_server.options(proxy.endpoint), "timeout": "400ms", "connect_timeout": "400ms"}
        told = _play(lake, replace(lake_target, options=way), 50, seed)
        failed = sum(proxy.happened.values())
        assert failed > proxy.requests / 5
    print(f"\nR10 on S3: 50 rounds, {failed} of {proxy.requests} answers failed, {told}")


def _create(lake: lw.Lake) -> None:
    """Create the tables, with deleted rows, so that the first rounds have vectors to keep."""
    for name in FORMATS:
        policy = {"merge_on_read": True} if name == "delta" else {}
        table = lake.create(name, "n int64, v int64", format=name, policy=policy)
        table.append([{"n": -n, "v": 0} for n in range(1, 9)])
        table.delete(where="n = -3")


def _play_beside_links(
    lake: lw.Lake,
    target: LakeTarget,
    rounds: int,
    seed: int,
    directory: Path,
    spark: SparkSession | None = None,
) -> None:
    """Play with links in the tables that lead to a file outside, which must stay as it is."""
    outside = directory / "outside" / "precious.parquet"
    outside.parent.mkdir()
    outside.write_bytes(b"precious")
    _create(lake)
    for name in FORMATS:
        (on_disk(lake.table(name).location) / "way-out").symlink_to(outside.parent)
    told = _play(lake, target, rounds, seed, spark)
    assert outside.read_bytes() == b"precious"
    print(f"\nR10: {rounds} rounds from seed {seed}, {told}")


def _play(
    lake: lw.Lake,
    target: LakeTarget,
    rounds: int,
    seed: int,
    spark: SparkSession | None = None,
) -> str:
    """Vacuum, write and hold versions for some rounds; what happened. `target` is vacuumed."""
    choose = random.Random(seed)
    holders, counts = Holders(lake, choose, spark), Counter[str]()
    for number in range(rounds):
        for name in FORMATS:
            change(lake, name, number, choose)
        holders.change()
        before, files = _rows(lake), _all_files(lake)
        steps = [choose.choice([*_WRITER_STEPS, *[""] * 8]), choose.choice([*VACUUM_STEPS, "", ""])]
        writer = processes.start(write, target, number, steps[0])
        cleaner = processes.start(vacuum, target, steps[1], choose.randrange(1, 3))
        holders.work()
        said = cleaner.finish()
        committed = bool(writer.finish())
        counts["vacuums killed"] += cleaner.killed
        counts["writers killed"] += writer.killed
        assert cleaner.killed or said, "the vacuum failed"
        assert writer.killed or committed, "the writer failed"
        counts["files deleted"] += len(files - _all_files(lake))
        holders.check()
        _check_rows(lake, before, number, committed=committed)
        if writer.killed:
            holders.bury()
        if number % 4 == 0:
            _check_strangers(lake)
    holders.release()
    for _ in range(3):
        if target.place is not None:
            # Object stores stamp files by whole seconds.
            time.sleep(1.1)
        # Opening the lake rolls back what dead processes left.
        with target.open() as last:
            counts["files deleted"] += last.vacuum(**NOW, unknown=True).plan.files
    assert rounds < 10 or counts["files deleted"] > rounds, "vacuums had hardly anything to delete"
    for name in FORMATS:
        table = lake.table(name)
        assert _files(table) == _live(table), "beyond what the rules keep"
    _check_strangers(lake)
    assert lake.doctor().healthy
    counts += holders.counts
    assert spark is None or counts["Spark committed"], counts
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))


def _rows(lake: lw.Lake) -> dict[str, Counter[tuple[int, ...]]]:
    return {name: _counted(lake, name) for name in FORMATS}


def _counted(lake: lw.Lake, name: str) -> Counter[tuple[int, ...]]:
    return Counter((r["n"], r["v"]) for r in lake.table(name).to_arrow().to_pylist())


def _check_rows(
    lake: lw.Lake, before: dict[str, Counter[tuple[int, ...]]], number: int, *, committed: bool
) -> None:
    """The rows are those of before, and those of the writer in all tables or in none."""
    new = {name: rows - before[name] for name, rows in _rows(lake).items()}
    lost = {name: before[name] - rows for name, rows in _rows(lake).items()}
    assert not any(lost.values()), lost
    assert all(rows == new["delta"] for rows in new.values()), new
    assert new["delta"] == written(number) or not (committed or new["delta"]), new


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


def _check_strangers(lake: lw.Lake) -> None:
    """Strangers read the same rows; they reach the store as `lake` does, without faults."""
    lake.publish()
    options = context_of(lake).storage.delta_options()
    for name in FORMATS:
        rows = rows_of(lake.table(name).to_arrow())
        told = stranger_arrow(lake, name) if name == "iceberg" else None
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
