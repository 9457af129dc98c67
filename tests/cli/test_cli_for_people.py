"""What a person at a terminal sees: zones, sizes, flags, colours and progress."""

from __future__ import annotations

import ast
import gzip
import io
import re
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from rich.progress import Progress

import lakeward as lw
from lakeward.cli.commands.pipelines import _StepPrinter
from lakeward.cli.output.counted import Counted
from lakeward.cli.output.progress import bar
from lakeward.cli.output.text_form import TextOutput
from lakeward.cli.output.words import grid, in_zone, moment
from lakeward.engines.arrow.remote import RemoteFile
from lakeward.model.progress import counted, reported
from lakeward.pipeline import StepResult
from lakeward.stream.files import RowFiles, files_source
from lakeward.stream.lines import JsonStream
from tests.cli.console import ask, program, tell
from tests.support.pythons import ROOT

REGISTERED = re.compile(r"\b(?:command|group)\([^()]*\)\((\w+)\)")
ASKS_THE_LOG = {
    "branches": {"clone", "list_branches", "create", "show", "diff", "drop"},
    "changes": {"drop", "rename"},
    "demo": {"demo"},  # prints its steps
    "exports": {"retention"},
    "histories": {"history", "versions"},
    "judging": {"sla"},
    "lakes": {"init", "tables", "outcome", "locks"},
    "maintenance": {"undrop", "jobs"},
    "observing": {"metrics", "lineage"},
    "optimizing": {"health"},
    "pipelines": {"runs", "show"},
    "policies": {"policies", "show", "set_policy", "unset", "history", "apply", "export"},
    "schemas": {"schema"},
    "service": {"serve", "create", "list_tokens", "revoke", "allow", "allowed", "disallow"},
    "tables": {"create", "show"},
    "tags": {"create", "list_tags", "drop"},
    "transactions": {"transactions", "show", "snapshot", "violations"},
}
"""Commands that read and write no rows, by the module that has them."""


def test_times_are_shown_in_the_users_zone(shop: Path) -> None:
    here = program("history", "sales.orders", "--limit", "1", "--lake", shop, TZ="Asia/Kolkata")
    utc = program(
        "history", "sales.orders", "--utc", "--limit", "1", "--lake", shop, TZ="Asia/Kolkata"
    )
    moment = here.stdout.splitlines()[3].split()[1]
    assert moment.endswith("+05:30")
    assert utc.stdout.splitlines()[3].split()[1].endswith("Z")
    # What is shown can be given back, and JSON is the same everywhere.
    assert ask("show", "sales.orders", "--timestamp", moment, "--lake", shop)["version"] == 3
    as_json = program("show", "sales.orders", "--json", "--lake", shop, TZ="Asia/Kolkata")
    assert '"timestamp":"' in as_json.stdout
    assert '+00:00"' in as_json.stdout


@pytest.mark.parametrize("merge_on_read", [True, False])
def test_sizes_on_disk_are_shown_beside_live_ones(tmp_path: Path, merge_on_read: bool) -> None:
    with lw.open(tmp_path) as lake:
        policy = {"merge_on_read": merge_on_read}
        lake.create("t", {"id": "int64"}, policy=policy)
        for _ in range(3):
            with lake.transaction() as tx:
                tx.append("t", [{"id": n} for n in range(1000)])
        with lake.transaction() as tx:
            tx.delete("t", where="id = 5")
    (found,) = ask("tables", "--lake", tmp_path)["tables"]
    files = sum(f.stat().st_size for f in (tmp_path / "t").rglob("*.parquet"))
    assert found["disk_bytes"] == files - _checkpoints(tmp_path)
    assert (found["bytes"] == found["disk_bytes"]) == merge_on_read
    assert "on disk" in tell("tables", "--lake", tmp_path)
    assert "with the files of older versions" in tell("show", "t", "--lake", tmp_path)


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (100, ["t       3,000,000   2026-01-02T03:04:05.678+01:00   2026-01-02T03"]),
        (64, ["t     3,000,000 2026-01-02T03:04:05.678+01:00 2026-01-02T03"]),
        (46, ["t     3,000,000 2026-01-02     2026-01-02T03", "03:04:05.678", "+01:00"]),
    ],
)
def test_a_narrow_terminal_breaks_times_between_their_parts_and_no_number(
    width: int, lines: list[str]
) -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, 678_000, timezone(timedelta(hours=1)))
    out = io.StringIO()
    with in_zone(when.tzinfo):
        row = ["t", "3,000,000", moment(when), "2026-01-02T03"]
    Console(file=out, width=width).print(
        grid(["table", "rows", "committed", "a text"], [row], right=("rows",))
    )
    shown = [line.strip() for line in out.getvalue().splitlines() if line.strip()][2:]
    assert shown == lines


def test_flags_are_shown_as_flags() -> None:
    for command in (["--help"], ["read", "--help"], ["doctor", "--help"]):
        text = program(*command, COLUMNS="120").stdout
        assert "--json" in text
        assert "<bool" not in text


def test_no_colour_is_used_that_light_backgrounds_hide() -> None:
    sources = [*(ROOT / "src/lakeward/cli").rglob("*.py"), *(ROOT / "examples/demo").rglob("*.py")]
    used = [
        f"{path.name}: {colour}"
        for path in sources
        for colour in ('"yellow', "bold yellow", "cyan", "bright_", '"white')
        if colour in path.read_text().replace("typer's are yellow and cyan", "")
    ]
    assert used == []
    # 33 and 36 are yellow and cyan, 9x the bright ones.
    shown = program("read", "--help", COLUMNS="120", FORCE_COLOR="1", TERM="xterm").stdout
    assert "\x1b[" in shown
    assert not any(code in shown for code in ("\x1b[33m", "\x1b[1;33m", "\x1b[36m", "\x1b[1;36m"))


def test_the_bar_shows_rate_and_remaining_time() -> None:
    out = io.StringIO()
    progress = bar(Console(file=out, force_terminal=True, width=150))
    task = progress.add_task("Taking rows", total=None)
    for done in (1000, 2000):
        time.sleep(0.05)
        progress.update(task, completed=done, total=100_000)
    text = io.StringIO()
    Console(file=text, width=150).print(progress.get_renderable())
    assert "2,000/100,000" in text.getvalue()
    assert "/s" in text.getvalue()
    assert "left" in text.getvalue()
    coloured = Console(file=io.StringIO(), width=150, force_terminal=True, color_system="standard")
    with coloured.capture() as shown:
        coloured.print(progress.get_renderable())
    assert "\x1b[" in shown.get()
    assert not any(code in shown.get() for code in ("\x1b[33m", "\x1b[36m"))


def test_the_bar_follows_loops_that_count_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Progress] = []

    def kept(console: Console) -> Progress:
        bars.append(bar(console))
        return bars[-1]

    monkeypatch.setattr("lakeward.cli.output.progress.bar", kept)
    output = TextOutput()
    output._err = Console(file=io.StringIO(), force_terminal=True)
    with output.working("Deleting"):
        assert list(counted("abc", 7)) == ["a", "b", "c"]
    (task,) = bars[0].tasks
    assert (task.completed, task.total) == (3, 7)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "src/lakeward/cli/commands").glob("[a-z]*.py")), ids=lambda p: p.stem
)
def test_every_command_that_reads_or_writes_rows_shows_a_bar(path: Path) -> None:
    text = path.read_text()
    bodies = {
        n.name: ast.unparse(n) for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)
    }
    shows = {
        name for name, body in bodies.items() if re.search(r"output\.(working|reading)\(", body)
    }
    without = {
        name
        for name in REGISTERED.findall(text)
        if name not in shows and not any(_calls(bodies[name], other) for other in shows)
    }
    assert without == ASKS_THE_LOG.get(path.stem, set())


def _calls(body: str, function: str) -> bool:
    return re.search(rf"(?<![.\w]){function}\(", body) is not None


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What bars were told: what they are for, the work done and its total, and their ends."""
    found: list[Any] = []

    @contextmanager
    def working(self: TextOutput, what: str) -> Generator[Callable[..., None]]:
        found.append(what)
        with reported(_into(found)):
            yield _into(found)
        found.append("end")

    monkeypatch.setattr(TextOutput, "working", working)
    return found


def _output_of_pages(told: list[Any]) -> tuple[TextOutput, Iterator[pa.RecordBatch]]:
    output = TextOutput()
    output._err = Console(file=io.StringIO(), force_terminal=True)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(2):
            told.append(f"read {number}")
            yield pa.record_batch({"id": range(3)})

    return output, batches()


def test_a_bar_is_gone_while_rows_are_printed(
    told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    output, batches = _output_of_pages(told)
    with output.reading("Reading t", batches, lambda: 6) as found:
        for number, _ in enumerate(found):
            told.append(f"print {number}")
    first = ["Reading t", "read 0", "end", "print 0"]
    assert told == [*first, "Reading t", "read 1", "end", "print 1", "Reading t", "end"]


def test_a_bar_counts_rows_that_go_to_a_file(
    told: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        output, batches = _output_of_pages(told)
        with output.reading("Reading t", batches, lambda: 6) as found:
            assert [b.num_rows for b in found] == [3, 3]
    assert told == ["Reading t", (0, 6), "read 0", (3, 6), "read 1", (6, 6), "end"]


def test_rows_for_a_file_are_not_printed_beside_the_bar(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("lakeward.cli.output.text_form.PATIENCE_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    shown = io.StringIO()
    with (tmp_path / "out").open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        output, batches = _output_of_pages([])
        output._err = Console(file=shown, force_terminal=True)
        with output.reading("Reading t", batches) as found:
            until = time.monotonic() + 10
            while "Reading t" not in shown.getvalue() and time.monotonic() < until:
                time.sleep(0.01)
            for _ in found:
                sys.stdout.write("a row\n")
    assert "Reading t" in shown.getvalue()
    assert "a row" not in shown.getvalue()
    assert (tmp_path / "out").read_text() == "a row\na row\n"


@pytest.mark.parametrize(
    ("options", "total"),
    [((), 35), (("--offset", "30"), 5), (("--limit", "7"), 7), (("--where", "id > 20"), None)],
)
def test_reading_into_a_file_shows_how_many_rows_are_left(
    shop: Path,
    told: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    total: int | None,
) -> None:
    terminal = property(lambda self: True)
    monkeypatch.setattr("lakeward.cli.output.text_form.PipedConsole.is_terminal", terminal)
    monkeypatch.setattr("lakeward.cli.output.text_form._is_file", lambda _: True)
    rows = len(tell("read", "sales.orders", *options, "--lake", shop).splitlines()) - 1
    assert told == ["Reading sales.orders", (0, total), (rows, total), "end"]
    assert total in (rows, None)


def test_statistics_count_the_rows_that_are_read(shop: Path, told: list[Any]) -> None:
    tell("statistics", "sales.orders", "--distinct", "id", "--lake", shop)
    assert told[0] == "Reading values"
    assert told[1] == (0, 35)
    assert told[-2:] == [(35, 35), "end"]


def test_a_delete_shows_a_bar_while_rows_are_counted(tmp_path: Path, told: list[Any]) -> None:
    with lw.open(tmp_path) as lake:
        lake.create("t", {"id": "int64"})
        with lake.transaction() as tx:
            tx.append("t", [{"id": n} for n in range(10)])
    tell("delete", "t", "--where", "id % 2 = 0", "--yes", "--lake", tmp_path)
    assert [text for text in told if isinstance(text, str)] == [
        *("Counting rows", "end"),
        *("Deleting", "end"),
    ]


def test_a_run_counts_its_steps() -> None:
    seen: list[tuple[int | None, ...]] = []
    steps = _StepPrinter(TextOutput(), _into(seen))
    for number, table in enumerate(("bronze", "silver"), start=1):
        steps.begins(table, number, 2)
        steps.ends(StepResult(table, "append", rows=1, seconds=0.1))
    assert seen == [(0, 2), (1, 2), (1, 2), (2, 2)]


def _arrow_file(path: Path, rows: int) -> None:
    with pa.ipc.new_file(path, _IDS) as writer:
        writer.write_table(pa.table({"id": range(rows)}), max_chunksize=4)


def _arrow_stream(path: Path, rows: int) -> None:
    with pa.ipc.new_stream(path, _IDS) as writer:
        writer.write_table(pa.table({"id": range(rows)}))


def _csv(rows: int) -> bytes:
    return b"id\n" + b"".join(b"%d\n" % n for n in range(rows))


_IDS = pa.schema([("id", pa.int64())])
_MAKE: dict[str, Callable[[Path, int], object]] = {
    "parquet": lambda path, rows: pq.write_table(pa.table({"id": range(rows)}), path),
    "csv": lambda path, rows: path.write_bytes(_csv(rows)),
    "csv.gz": lambda path, rows: path.write_bytes(gzip.compress(_csv(rows))),
    "json": lambda path, rows: path.write_text('{"id": 1}\n' * rows),
    "json.gz": lambda path, rows: path.write_bytes(gzip.compress(b'{"id": 1}\n' * rows)),
    "jsonl": lambda path, rows: path.write_text("\n".join(['{"id": 1}'] * rows)),
    "arrow": _arrow_file,
    "arrows": _arrow_stream,
}


def _seen(lake: lw.Lake, given: Path, progress: Any = None) -> tuple[list[Any], Any]:
    seen: list[tuple[int | None, ...]] = []
    counted = Counted(files_source([str(given)], None, lake), _into(seen))
    counted.start(progress, _IDS, "t")
    position = progress
    for portion in counted.portions():
        position = portion.position
    counted.close()
    return seen, position


@pytest.mark.parametrize("form", _MAKE)
def test_ingest_estimates_the_rows_that_are_left(tmp_path: Path, form: str) -> None:
    for name, rows in (("a", 10), ("b", 10), ("c", 5)):
        _MAKE[form](tmp_path / f"{name}.{form}", rows)
    with lw.open(tmp_path / "lake") as lake:
        seen, position = _seen(lake, tmp_path / f"*.{form}")
        totals = [total for rows, total in seen]
        assert seen[-1] == (25, 25)
        # Until the last file begins, it is estimated by the size of it and of those before.
        assert all(total is not None and 20 < total <= 30 for total in totals)

        # Rows that were taken before are not counted again.
        again = {**position, "bytes": 7, "kafka": {"topic": {"0": 1}}}
        assert _seen(lake, tmp_path / f"*.{form}", again)[0] == []
        _MAKE[form](tmp_path / f"d.{form}", 5)
        assert _seen(lake, tmp_path / f"*.{form}", again)[0][-1] == (5, 5)


@pytest.mark.parametrize("form", ["csv", "json", "json.gz"])
def test_a_file_that_has_grown_has_its_new_rows_left(tmp_path: Path, form: str) -> None:
    file = tmp_path / f"a.{form}"
    with lw.open(tmp_path / "lake") as lake:
        _MAKE[form](file, 10)
        _, position = _seen(lake, file)
        _MAKE[form](file, 16)
        assert _seen(lake, file, position)[0][-1] == (6, 6)


@pytest.mark.parametrize("form", ["csv", "csv.gz", "json", "json.gz", "arrow"])
def test_the_rows_of_a_large_file_are_estimated_by_its_beginning(tmp_path: Path, form: str) -> None:
    rows, file = 1_000_000, tmp_path / f"a.{form}"
    if form == "arrow":
        with pa.ipc.new_file(file, _IDS) as writer:
            writer.write_table(pa.table({"id": range(rows)}), max_chunksize=300_000)
    elif form.startswith("csv"):
        text = b"id\n" + b"".join(b"%09d\n" % (n * 7919 % rows) for n in range(rows))
        file.write_bytes(gzip.compress(text, 1) if form.endswith("gz") else text)
    else:
        _MAKE[form](file, rows)
    with lw.open(tmp_path / "lake") as lake:
        seen, _ = _seen(lake, file)
    assert seen[-1][0] == rows
    assert all(0.8 * rows < total < 1.25 * rows for _, total in seen)
    assert seen[0][0] < rows / 2


@pytest.mark.parametrize("form", ["parquet", "csv.gz", "json", "arrow"])
def test_files_of_an_object_store_are_taken_to_be_equally_large(tmp_path: Path, form: str) -> None:
    files = []
    for name, rows in (("a", 10), ("b", 20), ("c", 15)):
        _MAKE[form](tmp_path / f"{name}.{form}", rows)
        files.append(RemoteFile(str(tmp_path / f"{name}.{form}"), pyarrow.fs.LocalFileSystem()))
    seen: list[Any] = []
    counted = Counted(RowFiles(files, form.partition(".")[0]), _into(seen))
    counted.start(None, _IDS, "t")
    assert sum(p.count for p in counted.portions()) == 45
    by_rows = dict(seen)
    assert (by_rows[10], by_rows[30], by_rows[45]) == (30, 40, 45)


def test_the_rows_of_a_stream_are_unknown() -> None:
    seen: list[tuple[int | None, ...]] = []
    counted = Counted(JsonStream(io.BytesIO(b'{"id": 1}\n{"id": 2}\n')), _into(seen))
    counted.start(None, _IDS, "t")
    assert sum(p.count for p in counted.portions()) == 2
    assert seen == [(2, None)]


def test_ingest_shows_a_bar(tmp_path: Path, told: list[Any]) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n2\n")
    with lw.open(tmp_path / "lake"):
        pass
    common = ("--lake", tmp_path / "lake", "--into", "t", "--schema", "id int64")
    tell("ingest", "--from", tmp_path / "a.csv", *common)
    assert told[:2] == ["Taking rows into t", (2, 2)]
    assert told[-1] == "end"


def _checkpoints(place: Path) -> int:
    return sum(f.stat().st_size for f in place.rglob("_delta_log/*.parquet"))


def _into(seen: list[tuple[int | None, ...]]) -> Callable[[int, int | None], None]:
    return lambda *counts: seen.append(counts)
