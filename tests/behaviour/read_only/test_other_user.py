"""A user who may not write a lake reads it, at rest and while others write, and leaves no trace."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import ReadOnlyLake, StoreError
from tests.behaviour.lakes import append
from tests.support.other_user import (
    IS_ROOT,
    ask,
    open_to_readers,
    reader_of,
    without_permission,
)

TABLES = {"d": "delta", "i": "iceberg"}


@pytest.fixture(scope="module")
def warm() -> Generator[Path]:
    """A lake by which readers load their modules."""
    with open_to_readers() as path:
        _made(path)
        yield path


@pytest.fixture
def place() -> Generator[Path]:
    """A lake at rest: nobody has it open."""
    with open_to_readers() as path:
        _made(path / "lake")
        yield path / "lake"


def test_a_lake_at_rest_is_read_without_permission_to_write(place: Path, warm: Path) -> None:
    assert not list(place.glob("lakeward.db-*"))
    before = _traces(place)

    with without_permission(place), reader_of(place, warm) as reader:
        assert ask(reader, _rows) == {"d": [1], "i": [1]}
        reason = ask(reader, _refusal)

    assert "cannot be written (no permission)" in reason
    assert _traces(place) == before


def test_read_only_false_insists_on_writing(place: Path, warm: Path) -> None:
    with without_permission(place), reader_of(place, warm, read_only=False) as reader:
        assert isinstance(ask(reader, _rows), StoreError)


def test_what_a_dead_writer_left_in_the_write_ahead_log_is_read(place: Path, warm: Path) -> None:
    with lw.open(place) as lake:
        append(lake, "d", [{"id": 2}])
        left = {p: p.read_bytes() for p in place.glob("lakeward.db*")}
    for path, data in left.items():
        path.write_bytes(data)
    assert len(left) == 3

    with without_permission(place), reader_of(place, warm) as reader:
        assert ask(reader, _versions) == {"d": 2, "i": 1}


def test_a_write_ahead_log_that_cannot_be_read_is_not_left_out(place: Path, warm: Path) -> None:
    with lw.open(place) as lake:
        append(lake, "d", [{"id": 2}])
        left = {p: p.read_bytes() for p in place.glob("lakeward.db*")}
    for path, data in left.items():
        if not path.name.endswith("-shm"):
            path.write_bytes(data)

    with without_permission(place), reader_of(place, warm) as reader:
        error = ask(reader, _versions)

    assert isinstance(error, StoreError)
    assert "no -shm file" in str(error)


@pytest.mark.skipif(not IS_ROOT, reason="needs a second user beside one who writes")
def test_every_cut_is_whole_while_a_writer_commits_comes_and_goes(place: Path, warm: Path) -> None:
    with reader_of(place, warm) as reader:
        seen, rows = 0, 1
        until = time.monotonic() + 2
        while time.monotonic() < until or rows < 8:
            with lw.open(place) as lake:
                for _ in range(rows % 3 + 1):
                    rows += 1
                    reader.tell(_rows)
                    with lake.transaction() as tx:
                        tx.append("d", [{"id": rows}])
                        tx.append("i", [{"id": rows}])
                    cut = reader.hear()
                    assert cut["d"] == cut["i"] == list(range(1, len(cut["d"]) + 1))
                    assert seen <= len(cut["d"]) <= rows
                    seen = len(cut["d"])
                    assert ask(reader, _rows) == {t: list(range(1, rows + 1)) for t in TABLES}
            # The writer is gone, and with it the files by which its log was read, or not.
            assert ask(reader, _rows) == {t: list(range(1, rows + 1)) for t in TABLES}
        assert ask(reader, _at_moment) == ask(reader, _at_moment)


def _made(path: Path) -> None:
    with lw.open(path) as lake:
        for name, kind in TABLES.items():
            lake.create(name, {"id": "int64"}, format=kind)
            append(lake, name, [{"id": 1}])


def _rows(lake: lw.Lake) -> dict[str, Any]:
    with lake.snapshot() as cut:
        return {t.name: sorted(t.to_arrow().column("id").to_pylist()) for t in cut}


def _versions(lake: lw.Lake) -> dict[str, int]:
    return dict(lake.snapshot().versions)


def _at_moment(lake: lw.Lake) -> dict[str, int]:
    moment = max(t.at().timestamp for t in lake.tables())
    return dict(lake.snapshot(at=moment).versions)


def _refusal(lake: lw.Lake) -> str:
    with pytest.raises(ReadOnlyLake) as caught, lake.transaction() as tx:
        tx.append("d", [{"id": 9}])
    return str(caught.value)


def _traces(path: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in path.rglob("*")}


@pytest.mark.skipif(not IS_ROOT, reason="only root may mount")
def test_a_read_only_file_system_is_read_by_root_too(place: Path) -> None:
    program = (
        "import sys, lakeward as lw; lake = lw.open(sys.argv[1]);"
        "print(lake.read_only, lake.table('d').to_arrow().to_pylist(), lake.table('i').count());"
        "lake.drop('d')"
    )
    script = (
        'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && echo mounted'
        ' && exec "$2" -c "$3" "$1"'
    )
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", place, sys.executable, program],
        capture_output=True,
        text=True,
        check=False,
    )
    if not ran.stdout.startswith("mounted"):
        pytest.skip(f"no read-only mount can be made here: {ran.stderr}")
    assert ran.stdout.splitlines()[1:] == ["True [{'id': 1}] 1"]
    assert "ReadOnlyLake" in ran.stderr
    assert "a read-only file system" in ran.stderr
