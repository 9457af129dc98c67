"""`lakeward read`: rows for people on a terminal, and as lines for programs."""

from __future__ import annotations

import csv
import io
import os
import pty
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.cli.output.rows import write_lines
from tests.cli.console import ask, clean_environment, run, tell

ODD: list[dict[str, Any]] = [
    {"a": 'x\ty\n\\ "q", é', "b": b"\x00\xff", "c": 20.0, "d": [1, 2], "e": Decimal("1.50")},
    {"a": "", "b": None, "c": None, "d": None, "e": None},
]
ROWS = 200_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a large table, and one with values that lines cannot hold as they are."""
    place = tmp_path_factory.mktemp("read")
    numbers = pa.array(range(ROWS))
    large = pa.table(
        {"id": numbers, "name": numbers.cast(pa.string()), "x": numbers.cast("double")}
    )
    odd = {"a": "string", "b": "binary", "c": "double", "d": pa.list_(pa.int64())}
    with lw.open(place) as made:
        made.create("large", large.schema)
        made.create("odd", odd | {"e": "decimal(10,2)"})
        made.create("times", {"at": "timestamp", "plain": "timestamp_ntz", "day": "date"})
        made.create("empty", {"id": "int64", "a name": "string"})
        with made.transaction() as tx:
            tx.append("large", large)
            tx.append("odd", ODD)
            moment = datetime(2026, 11, 1, 8, 30, tzinfo=UTC)
            row = {"at": moment, "plain": moment.replace(tzinfo=None), "day": date(2026, 11, 1)}
            tx.append("times", [row])
    return place


def test_in_a_pipe_rows_are_lines_with_tabs(lake: Path) -> None:
    assert tell("read", "odd", "--lake", lake).split("\n") == [
        "a\tb\tc\td\te",
        'x\\ty\\n\\\\ "q", é\t00ff\t20.0\t[1,2]\t1.50',
        "\t\\N\t\\N\t\\N\t\\N",
        "",
    ]
    assert tell("read", "times", "--lake", lake).split("\n")[1] == (
        "2026-11-01T08:30:00.000000Z\t2026-11-01T08:30:00.000000\t2026-11-01"
    )


def test_a_table_without_rows_has_its_header(lake: Path) -> None:
    assert tell("read", "empty", "--lake", lake) == "id\ta name\n"
    assert tell("read", "empty", "--csv", "--lake", lake) == "id,a name\n"
    assert ask("read", "empty", "--lake", lake)["rows"] == []


def test_csv_is_what_other_readers_understand(lake: Path) -> None:
    text = tell("read", "odd", "--csv", "--lake", lake)
    found = list(csv.reader(io.StringIO(text, newline="")))
    assert found[0] == ["a", "b", "c", "d", "e"]
    assert found[1] == [ODD[0]["a"], "00ff", "20.0", "[1,2]", "1.50"]
    assert text.endswith('\n"",,,,\n')


def test_no_cell_is_shortened_and_no_line_is_wrapped(tmp_path: Path) -> None:
    long = "word " * 2000
    with lw.open(tmp_path) as made:
        made.create("t", {"text": "string", "id": "int64"})
        with made.transaction() as tx:
            tx.append("t", [{"text": long, "id": 1}])
    assert tell("read", "t", "--lake", tmp_path) == f"text\tid\n{long}\t1\n"


def test_all_rows_come_in_a_pipe_and_pages_on_demand(lake: Path) -> None:
    lines = tell("read", "large", "--lake", lake).splitlines()
    assert lines[0] == "id\tname\tx"
    assert len(lines) == 1 + ROWS
    assert lines[-1] == f"{ROWS - 1}\t{ROWS - 1}\t{float(ROWS - 1)}"
    some = tell("read", "large", "--limit", "3", "--offset", "150000", "--lake", lake)
    assert [line.split("\t")[0] for line in some.splitlines()[1:]] == ["150000", "150001", "150002"]


def test_json_stays_one_object_however_many_rows(lake: Path) -> None:
    found = ask("read", "large", "--limit", "25000", "--offset", "10", "--lake", lake)
    assert [row["id"] for row in found["rows"]] == list(range(10, 25010))
    assert (found["offset"], found["more"]) == (10, True)
    assert len(ask("read", "large", "--lake", lake)["rows"]) == 20
    assert ask("read", "large", "--limit", "0", "--lake", lake)["more"] is True
    assert ask("read", "odd", "--lake", lake)["more"] is False


def test_a_table_can_be_had_in_a_pipe(lake: Path) -> None:
    text = tell("read", "large", "--table", "--lake", lake)
    assert "rows 1 to 20 of large at version 1; --limit and --offset show more" in text
    pages = tell("read", "large", "--table", "--limit", "1500", "--lake", lake)
    assert pages.count("show more") == 1
    assert "rows 1,001 to 1,500 of large" in pages


def test_csv_excludes_other_forms(lake: Path) -> None:
    assert run("read", "odd", "--csv", "--table", "--lake", lake).code == 2
    assert run("read", "odd", "--csv", "--json", "--lake", lake).code == 2


def test_a_terminal_gets_a_table(lake: Path) -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "lakeward", "read", "odd", "--lake", str(lake)]
    # Not the terminal for errors: on a slow machine a progress bar with its own codes appears.
    done = subprocess.run(
        command,
        stdout=follower,
        stderr=subprocess.PIPE,
        env=clean_environment(COLUMNS="60"),
        check=False,
    )
    os.close(follower)
    text = re.sub(r"\x1b\[[0-9;]*m", "", os.read(leader, 100_000).decode())
    os.close(leader)
    assert done.returncode == 0
    assert "rows 1 to 2 of odd" in text
    assert all(len(line) <= 60 for line in text.splitlines())


def test_a_reader_of_one_line_does_not_wait_for_the_rest(lake: Path) -> None:
    """`lakeward read | head -1`: the pipe is closed after the first line."""
    command = [sys.executable, "-m", "lakeward", "read", "large", "--lake", str(lake)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment()
    ) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        assert reading.stdout.readline() == b"id\tname\tx\n"
        reading.stdout.close()
        started = time.monotonic()
        assert reading.wait(timeout=60) == 0
        assert reading.stderr.read() == b""
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert time.monotonic() - started < 10
    # 200,000 rows take 0.5 s of CPU beyond the start; the first page takes none to speak of.
    assert after.ru_utime - before.ru_utime < 5


def test_a_page_is_written_before_the_next_one_is_read(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[int] = []

    def watched(pages: Iterable[Any]) -> Iterator[Any]:
        for page in pages:
            yield page
            written.append(capsys.readouterr().out.count("\n"))

    with lw.open(lake) as opened:
        write_lines(watched(opened.table("large").at().pages(size=10_000)))
    assert written == [10_001] + [10_000] * 19


def test_nothing_is_read_after_the_pipe_is_closed(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    def watched(pages: Iterable[Any]) -> Iterator[Any]:
        for page in pages:
            asked.append(page.offset)
            yield page

    with lw.open(lake) as opened:
        pages = opened.table("large").at().pages(size=10_000)
        monkeypatch.setattr(sys, "stdout", Closed())
        with pytest.raises(BrokenPipeError):
            write_lines(watched(pages))
    assert asked == [0]


def test_memory_holds_a_part_of_the_rows(tmp_path: Path) -> None:
    rows = pa.table({"id": range(2000), "name": [f"{n:04d}" * 500 for n in range(2000)]})
    with lw.open(tmp_path) as opened:
        opened.create("t", rows.schema)
        with opened.transaction() as tx:
            for _ in range(40):
                tx.append("t", rows)
        before = pa.total_allocated_bytes()
        held = [
            pa.total_allocated_bytes() - before for _ in opened.table("t").at().pages(size=1000)
        ]
    assert len(held) == 80
    assert max(held) < 40 * rows.nbytes / 3
