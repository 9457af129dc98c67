"""The two forms of output: what values become, and what data cannot do to a terminal."""

from __future__ import annotations

import io
import sys
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.cli.output import text_form, words
from lakeward.cli.output.base import Failure
from lakeward.cli.output.json_form import JsonOutput
from lakeward.cli.output.text_form import TextOutput
from lakeward.model.records import to_json
from tests.cli.console import ask, tell


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**63, 2**63),
        (2**70, str(2**70)),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (Decimal("1.20"), "1.20"),
        (b"\x00\xff", "AP8="),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (Path("a/b"), "a/b"),
        (_Colour.RED, "red"),
        ({1: (1, {"x": None})}, {"1": [1, {"x": None}]}),
        ("\udcff", "\\udcff"),
    ],
)
def test_values_become_what_json_has(value: Any, expected: Any) -> None:
    assert to_json(value) == expected
    orjson.dumps(to_json(value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain ü 漢", "plain ü 漢"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\u202eevil", "\\u202eevil"),
        ("\x9bm", "\\x9bm"),
        ("\udcff", "\\udcff"),
    ],
)
def test_control_characters_are_spelled_out(text: str, expected: str) -> None:
    assert words.printable(text) == expected


def test_line_breaks_stay_where_lines_are_meant() -> None:
    assert words.printable("a\nb\x07", lines=True) == "a\nb\\x07"


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (123_456_789, "123.5 MB"), (None, "?")],
)
def test_sizes_are_told_in_units(count: int | None, expected: str) -> None:
    assert words.size(count) == expected


def test_counts_know_their_plural() -> None:
    assert words.counted(1, "file") == "1 file"
    assert words.counted(1200, "file") == "1,200 files"


def _table(place: Path, rows: pa.Table) -> None:
    with lw.open(place) as lake:
        lake.create("t", rows.schema)
        with lake.transaction() as tx:
            tx.append("t", rows)


def test_rows_cannot_colour_or_move_the_terminal(tmp_path: Path) -> None:
    evil = ["\x1b]0;title\x07", "[bold red]x[/]", ":smile:", "a\nb", "\u202ereversed"]
    _table(tmp_path, pa.table({"evil": evil}))
    text = tell("read", "t", "--table", "--lake", tmp_path)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold red]x[/]" in text
    assert ":smile:" in text
    assert "a\\nb" in text
    assert [r["evil"] for r in ask("read", "t", "--lake", tmp_path)["rows"]] == evil


def test_rows_of_every_kind_are_shown(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "n": pa.array([1, None], pa.int64()),
            "f": pa.array([float("nan"), 1.5]),
            "d": pa.array([Decimal("1.20"), None], pa.decimal128(10, 2)),
            "b": pa.array([b"\x01\xff", None]),
            "t": pa.array([datetime(2026, 1, 2, 3, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
            "z": pa.array([datetime(2026, 1, 2, 3), None], pa.timestamp("us")),  # noqa: DTZ001
            "o": pa.array([True, None]),
            "l": pa.array([[1, 2], None], pa.list_(pa.int64())),
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "s": pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())])),
            "long": pa.array(["y" * 500, None]),
        }
    )
    _table(tmp_path, rows)
    first, second = ask("read", "t", "--lake", tmp_path)["rows"]
    assert first == {
        "n": 1,
        "f": "nan",
        "d": "1.20",
        "b": "Af8=",
        "t": "2026-01-02T03:00:00+00:00",
        "z": "2026-01-02T03:00:00",
        "o": True,
        "l": [1, 2],
        "m": [["k", 1]],
        "s": {"x": 1},
        "long": "y" * 500,
    }
    assert second["n"] is None
    text = tell("read", "t", "--table", "--lake", tmp_path)
    for shown in ("null", "nan", "1.20", "01ff", "true", "[1,2]", '[["k",1]]', '{"x":1}'):
        assert shown in text
    assert "y" * 199 + "…" in text


def test_warnings_become_a_list_in_the_object(capsys: pytest.CaptureFixture[str]) -> None:
    output = JsonOutput()
    output.warn("careful")
    output.note("nobody hears it")
    output.fail(Failure("Kind", "what", None, {}))
    captured = capsys.readouterr()
    assert orjson.loads(captured.out)["warnings"] == ["careful"]
    assert captured.err == ""


def test_a_progress_bar_appears_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_form, "PATIENCE_SECONDS", 0.05)
    # A terminal without cursor movement has no bars.
    monkeypatch.setenv("TERM", "xterm")
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with TextOutput().working("Counting sheep") as advance:
        advance(3, 10)
        until = time.monotonic() + 10
        while "Counting sheep" not in terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.02)
    assert "Counting sheep" in terminal.getvalue()
    assert "3/10" in terminal.getvalue()


def test_no_progress_bar_appears_when_it_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with TextOutput().working("Counting sheep") as advance:
        advance(3, 10)
    assert "Counting sheep" not in terminal.getvalue()


def test_no_progress_bar_is_drawn_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_form, "PATIENCE_SECONDS", 0.0)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with TextOutput().working("Counting sheep"):
        time.sleep(0.2)
    assert stream.getvalue() == ""
