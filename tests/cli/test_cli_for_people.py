"""What a person at a terminal sees: zones, sizes, flags, colours and progress."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from rich.progress import Progress

import lakeward as lw
from lakeward.cli.output.counted import Counted
from lakeward.cli.output.progress import bar
from lakeward.cli.output.text_form import TextOutput
from lakeward.model.progress import counted
from lakeward.stream.files import files_source
from tests.cli.console import ask, program, tell
from tests.support.pythons import ROOT


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


def test_flags_are_shown_as_flags() -> None:
    for command in (["--help"], ["read", "--help"], ["doctor", "--help"]):
        text = program(*command, COLUMNS="120").stdout
        assert "--json" in text
        assert "bool" not in text


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


def test_ingest_counts_rows_of_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": range(5)}), tmp_path / "b.parquet")
    lines = tmp_path / "c.json"
    lines.write_text('{"id": 1}\n' * 5)
    with lw.open(tmp_path / "lake") as lake:
        for given, total in (([str(tmp_path / "*.parquet")], 15), ([str(lines)], 5)):
            seen: list[tuple[int | None, ...]] = []
            counted = Counted(files_source(given, None, lake), _into(seen), given)
            counted.start(None, pa.schema([("id", pa.int64())]), "t")
            assert sum(p.count for p in counted.portions()) == total
            assert seen[-1] == (total, total)
            counted.close()


def _checkpoints(place: Path) -> int:
    return sum(f.stat().st_size for f in place.rglob("_delta_log/*.parquet"))


def _into(seen: list[tuple[int | None, ...]]) -> Callable[[int, int | None], None]:
    return lambda *counts: seen.append(counts)
