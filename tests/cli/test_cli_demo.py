"""The demo is green, is red when a check fails, and leaves nothing behind unless asked."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

import pytest

from lakeward_demo import steps, strangers
from lakeward_demo.story import Stage
from tests.cli.console import ask, program, run

QUICK = (steps.make_the_lake, steps.append_rows)


@pytest.mark.slow
@pytest.mark.crash
def test_the_whole_demo_is_green_and_keeps_its_lake(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    result = program("demo", "--embedded", "--into", place)
    assert result.returncode == 0, result.stdout
    assert "✗" not in result.stdout
    assert f"in {len(steps.STEPS)} steps" in result.stdout
    assert result.stderr == ""
    for engine in ("deltalake", "Polars"):
        assert f"✓ {engine} reads the same rows" in result.stdout
    assert "✓ the write was refused: yes" in result.stdout
    assert f"the process was killed: {-signal.SIGKILL}" in result.stdout
    assert "Where to look next:" in result.stdout
    tables = ask("tables", "--lake", place)["tables"]
    assert [t["name"] for t in tables] == ["shop.orders", "shop.stock"]
    assert ask("doctor", "--lake", place)["healthy"] is True


@pytest.mark.slow
@pytest.mark.crash
def test_the_demo_as_json_has_every_check_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    answer = run("demo", "--embedded", "--json")
    assert answer.code == 0, answer
    found = answer.json
    assert found["ok"] is True
    assert found["lake"] is None
    assert found["steps"][0]["title"].startswith("A lake is a directory")
    assert len(found["steps"]) == len(steps.STEPS)
    checks = [c for s in found["steps"] for c in s["checks"]]
    assert len(checks) > 30
    assert all(c["ok"] and c["expected"] == c["actual"] for c in checks)
    assert set(tmp_path.iterdir()) == before


def test_the_commands_that_the_demo_advises_are_about_a_lake_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEPS", QUICK)
    monkeypatch.chdir(tmp_path)
    answer = run("demo", "--embedded")
    assert answer.code == 0, answer
    _, advice = answer.out.split("Where to look next:")
    first, *others = [line.strip() for line in advice.strip().splitlines()]

    # The lake of this demo is deleted, so the others are about the one that the first makes.
    assert "demo --embedded --into ./shop" in first
    assert len(others) == 6
    assert all(" --lake ./shop " in line for line in others), others
    assert run("demo", "--embedded", "--into", "./shop").code == 0
    assert ask("--lake", "./shop", "tables")["tables"]


def test_a_check_that_fails_makes_the_demo_red(monkeypatch: pytest.MonkeyPatch) -> None:
    def lie(stage: Stage) -> None:
        """A promise that is not kept."""
        stage.check("apples", 6000, stage.lake.table("shop.stock").version)

    monkeypatch.setattr(steps, "STEPS", (*QUICK, lie, steps.append_by_partition))
    answer = run("demo", "--embedded")
    assert answer.code == 13
    assert "✗ apples: expected 6000, got 1" in answer.out
    assert "✗ 1 of" in answer.out
    assert "✓ orders: 1000" in answer.out, "the story goes on after a failed check"
    assert "all" not in answer.out.splitlines()[-1]
    found = run("demo", "--embedded", "--json")
    assert found.code == 13
    assert found.json["ok"] is False


def test_a_step_that_breaks_off_makes_the_demo_red_and_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stumble(stage: Stage) -> None:
        """A step that stumbles."""
        stage.lake.table("no.such.table")

    monkeypatch.setattr(steps, "STEPS", (*QUICK, stumble, steps.append_by_partition))
    answer = run("demo", "--embedded", "--json")
    assert answer.code == 13
    last = answer.json["steps"][-1]
    assert last["title"] == "A step that stumbles"
    assert last["checks"][-1]["ok"] is False
    assert last["checks"][-1]["actual"].startswith("InvalidName")
    assert len(answer.json["steps"]) == 3


def test_a_broken_promise_of_the_lake_is_seen_by_the_demo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The checks look at the lake, so that a lake which misbehaves turns them red."""

    def tamper(stage: Stage) -> None:
        """Somebody loses the published log."""
        stage.lake.publish()
        for path in stage.directory.rglob("_delta_log/*.json"):
            path.unlink()

    chosen = (*QUICK, steps.append_by_partition, tamper, steps.read_as_strangers_do)
    monkeypatch.setattr(steps, "STEPS", (*chosen, steps.ask_the_doctor))
    answer = run("demo", "--embedded", "--json")
    assert answer.code == 13
    *_, strangers_, doctor = answer.json["steps"]
    assert [c["ok"] for c in strangers_["checks"] if c["what"].startswith("delta")] == [False]
    assert [c["ok"] for c in doctor["checks"]] == [False]


def test_engines_that_are_absent_are_told_and_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = {"absent": "No module named 'nix'"}
    monkeypatch.setattr(strangers, "read_with_all", lambda location: [("DuckDB", absent)])
    monkeypatch.setattr(strangers, "write_to", lambda location: absent)
    chosen = (*QUICK, steps.append_by_partition, steps.read_as_strangers_do)
    monkeypatch.setattr(steps, "STEPS", (*chosen, steps.keep_strangers_out))
    answer = run("demo", "--embedded")
    assert answer.code == 0, answer
    assert "DuckDB is not installed, so it was not asked (No module named 'nix')." in answer.out
    assert "deltalake is not installed, so it did not try" in answer.out


def test_the_demo_takes_no_directory_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    answer = run("demo", "--embedded", "--into", tmp_path, "--json")
    assert answer.code == 4
    assert answer.error["type"] == "AlreadyExists"
    assert {p.name for p in tmp_path.iterdir()} == {"elsewhere", "letter"}


def test_a_demo_that_is_not_installed_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lakeward_demo", None)
    answer = run("demo", "--embedded", "--json")
    assert answer.code == 11
    assert answer.error["type"] == "MissingExtra"
    assert "make setup" in answer.error["hint"]
