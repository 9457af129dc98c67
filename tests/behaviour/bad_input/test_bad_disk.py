"""Disks that refuse to be written, or are full: a clear error, and it works again afterwards.

The work is done by a child process, which gives up root and its share of the disk.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from tests.behaviour.lakes import append, ids, picture
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow

_NOBODY = 65534

_PRELUDE = """
import json, os, random, resource, sys, tempfile
import psycopg
import lakeward as lw
from lakeward.context import context_of
from lakeward.errors import LakewardError

url, warehouse = sys.argv[1:3]


def report(work):
    try:
        found = work()
    except LakewardError as error:
        found = {"error": type(error).__name__, "text": str(error), "hint": error.hint}
    print(json.dumps(found), flush=True)


def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def unlimit():
    limit(resource.RLIM_INFINITY)


def nobody():
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


def open_as_nobody():
    if "://" not in url:
        nobody()
        return lw.open(url, warehouse=warehouse)
    lake = lw.open(url, warehouse=warehouse)
    database = context_of(lake).database
    # Nobody may not reach the server's socket, so connections are opened before.
    with database.read(), database.read(), database.read():
        nobody()
    return lake


def append(lake, numbers):
    with lake.transaction() as tx:
        tx.append("t", {"id": list(numbers)})
    result = tx.commit()
    return {"version": result.versions["t"], "published": result.published}


# Load what is needed while it may be read and written.
with tempfile.TemporaryDirectory() as scratch, lw.open(scratch) as lake:
    lake.create("t", {"id": "int64"}, partition_by=[], constraints={"c": "id > -1"})
    append(lake, [1])
    lake.table("t").to_arrow(where="id = 1")
"""


def _child(target: LakeTarget, work: str) -> list[dict[str, Any]]:
    """What a process of its own reports, one entry per `report`."""
    code = _PRELUDE + textwrap.dedent(work)
    done = subprocess.run(
        [sys.executable, "-c", code, target.url, str(target.warehouse)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def target(store: str, request: pytest.FixtureRequest) -> Iterator[LakeTarget]:
    """A lake with one table, in a directory that every user may enter."""
    directory = Path(tempfile.mkdtemp(prefix="lakeward-disk-")).resolve()
    directory.chmod(0o755)
    warehouse = directory / "lake"
    url = (
        request.getfixturevalue("prepared_postgres_url") if store == "postgres" else str(warehouse)
    )
    found = LakeTarget(url, warehouse)
    with found.open() as lake:
        lake.create("t", {"id": "int64"})
        append(lake, "t", {"id": [1]})
    yield found
    shutil.rmtree(directory)


def _own(directory: Path) -> None:
    """Let the child write everything below, as far as modes allow; it is this user unless root."""
    if os.getuid() != 0:
        return
    for path in (directory, *directory.rglob("*")):
        shutil.chown(path, _NOBODY, _NOBODY)


def test_a_data_directory_that_is_read_only(target: LakeTarget) -> None:
    _own(target.warehouse)
    data = target.warehouse / "t"
    data.chmod(0o555)
    with target.open() as lake:
        before = picture(lake)
    (failed,) = _child(
        target,
        """
        lake = open_as_nobody()
        report(lambda: append(lake, [2]))
        """,
    )

    assert failed["error"] == "StorageError"
    assert "t/part-" in failed["text"]
    assert "permissions" in failed["hint"]
    with target.open() as lake:
        assert picture(lake) == before
    data.chmod(0o755)
    (worked,) = _child(
        target,
        """
        lake = open_as_nobody()
        report(lambda: append(lake, [2]))
        """,
    )
    assert worked == {"version": 2, "published": True}


def test_a_log_directory_that_is_read_only_delays_publication_only(target: LakeTarget) -> None:
    _own(target.warehouse)
    log = target.warehouse / "t" / "_delta_log"
    log.chmod(0o555)
    (committed,) = _child(
        target,
        """
        lake = open_as_nobody()
        report(lambda: append(lake, [2]))
        """,
    )

    assert committed == {"version": 2, "published": False}
    assert not (log / f"{2:020d}.json").exists()
    log.chmod(0o755)
    with target.open() as lake:
        assert (log / f"{2:020d}.json").exists()
        assert ids(lake, "t") == [1, 2]


def test_a_lake_directory_that_is_read_only(target: LakeTarget) -> None:
    with target.open() as lake:
        before = picture(lake)
    _own(target.warehouse)
    for path in (target.warehouse, *target.warehouse.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    found = _child(
        target,
        """
        lake = None
        def opened():
            global lake
            lake = lake or open_as_nobody()
            return lake
        report(lambda: append(opened(), [2]))
        report(lambda: opened().create("u", {"id": "int64"}).version)
        """,
    )

    assert {f["error"] for f in found} <= {"ReadOnlyLake", "StorageError"}
    assert all("permissions" in f["hint"] or "who may write" in f["hint"] for f in found)
    for path in (target.warehouse, *target.warehouse.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with target.open() as lake:
        assert picture(lake) == before


def test_a_place_where_no_lake_can_be_made(tmp_path: Path) -> None:
    target = LakeTarget("/proc/lake", Path("/proc/lake"))
    (failed,) = _child(target, "report(lambda: lw.open(url).tables())")

    assert failed["error"] == "StoreError"
    assert "/proc/lake" in failed["text"]


def test_a_disk_that_fills_up_while_rows_are_written(target: LakeTarget) -> None:
    with target.open() as lake:
        before = picture(lake)
    failed, rows, worked = _child(
        target,
        """
        lake = lw.open(url, warehouse=warehouse)
        numbers = [random.getrandbits(60) for _ in range(200_000)]
        limit(1_000_000)
        report(lambda: append(lake, numbers))
        report(lambda: {"rows": lake.table("t").to_arrow().num_rows})
        unlimit()
        report(lambda: append(lake, numbers))
        """,
    )

    assert failed["error"] == "StorageError"
    assert "space" in failed["hint"]
    assert rows == {"rows": 1}
    assert worked == {"version": 2, "published": True}
    with target.open() as lake:
        assert lake.table("t").totals().rows == 200_001
        assert set(before["files"]) < set(picture(lake)["files"])
        assert len(list((target.warehouse / "t").glob("*.parquet"))) == 2


def test_a_disk_with_no_room_for_the_store(tmp_path: Path) -> None:
    target = LakeTarget(str(tmp_path), tmp_path)
    with target.open() as lake:
        lake.create("t", {"id": "int64"})
        append(lake, "t", {"id": [1]})
    failed, rows, worked = _child(
        target,
        """
        lake = lw.open(url, warehouse=warehouse)
        limit(100_000)
        done = []
        def fill():
            while True:
                done.append(append(lake, [len(done) + 2]))
        report(fill)
        report(lambda: {"rows": lake.table("t").to_arrow().num_rows, "done": len(done)})
        unlimit()
        report(lambda: append(lake, [1000]))
        """,
    )

    assert failed["error"] in ("StoreError", "OutcomeUnknown")
    assert failed["hint"]
    assert rows["rows"] == rows["done"] + 1
    assert worked["version"] == rows["done"] + 2
    with target.open() as lake:
        assert ids(lake, "t") == [*range(1, rows["done"] + 2), 1000]


def test_a_full_disk_when_a_lake_is_made(tmp_path: Path) -> None:
    target = LakeTarget(str(tmp_path / "lake"), tmp_path / "lake")
    failed, worked = _child(
        target,
        """
        limit(2048)
        report(lambda: lw.open(url).tables())
        unlimit()
        report(lambda: {"tables": len(lw.open(url).tables())})
        """,
    )

    assert failed["error"] in ("StoreError", "OutcomeUnknown")
    assert failed["hint"]
    assert worked == {"tables": 0}


def test_a_lake_works_in_a_child_as_here(target: LakeTarget) -> None:
    """So that the failures above are those of the disk."""
    (worked,) = _child(target, "report(lambda: append(lw.open(url, warehouse=warehouse), [2]))")

    assert worked == {"version": 2, "published": True}
    with lw.open(target.url, warehouse=target.warehouse) as lake:
        assert ids(lake, "t") == [1, 2]
