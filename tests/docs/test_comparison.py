"""`docs/compare.md` counts the lines of programs that are run here, for each tool by its Python."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from tests.docs.pages import EXAMPLES, ROOT, Page

PROGRAMS: Final = EXAMPLES / "compare"
PAGE: Final = Page(ROOT / "docs" / "compare.md")
TASKS: Final = {
    "append": "append a frame",
    "load_csv": "load a CSV file",
    "upsert": "update and insert by key",
    "two_tables": "change two tables at once",
    "to_pandas": "read as pandas",
    "to_polars": "read as Polars",
    "history": "history",
    "diff": "what changed",
}
TOOLS: Final = ("lakeward", "deltalake", "pyiceberg", "ducklake")
CANNOT: Final = {("two_tables", "deltalake"), ("two_tables", "pyiceberg")}


def test_there_is_a_program_for_each_task_and_tool() -> None:
    there = {(p.parent.name, p.stem) for p in PROGRAMS.glob("*/*.py")}
    assert there == {(task, tool) for task in TASKS for tool in TOOLS} - CANNOT


@pytest.mark.parametrize("task", TASKS)
def test_lakeward_needs_no_more_lines_than_the_shortest(task: str) -> None:
    ours, *others = (lines(task, tool) for tool in TOOLS)
    assert ours is not None
    assert ours <= min(count for count in others if count is not None)


@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("*/*.py")), ids=lambda p: str(p)[-30:])
def test_a_line_is_one_statement(program: Path) -> None:
    assert ";" not in program.read_text()  # ruff holds the rest: format and length


def test_the_page_shows_the_lines_that_were_counted() -> None:
    shown = [line for line in PAGE.text.splitlines() if line.startswith("| ")]
    for task, name in TASKS.items():
        counted = [lines(task, tool) for tool in TOOLS]
        cells = ["—" if count is None else str(count) for count in counted]
        assert f"| {name} | {' | '.join(cells)} |" in shown


@pytest.mark.peers
@pytest.mark.slow
def test_the_programs_of_all_tools_come_to_the_same(tmp_path: Path) -> None:
    came: dict[str, dict[str, Any]] = {tool: ran(tool, tmp_path) for tool in TOOLS}
    for task in TASKS:
        outcomes = {tool: came[tool][task] for tool in TOOLS if (task, tool) not in CANNOT}
        assert len({json.dumps(outcome) for outcome in outcomes.values()}) == 1, (task, outcomes)
        assert outcomes["lakeward"], task


def lines(task: str, tool: str) -> int | None:
    """How many lines a program has that are neither empty nor comments, if there is one."""
    program = PROGRAMS / task / f"{tool}.py"
    if not program.exists():
        return None
    written = [line.strip() for line in program.read_text().splitlines()]
    return sum(bool(line) and not line.startswith("#") for line in written)


def ran(tool: str, directory: Path) -> dict[str, Any]:
    """What the programs of a tool come to."""
    python = ROOT / ".venv-peers" / "bin" / "python" if tool == "ducklake" else sys.executable
    done = subprocess.run(
        [python, Path(__file__).with_name("comparing.py"), tool, PROGRAMS],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize(
    ("claim", "module"),
    [
        ("no OIDC", "lakeward.web.openid"),
        ("without views", "lakeward.web.iceberg.views"),
        ("No query engine.", "lakeward.engines.sql.query"),
        ("Spark does not alter", "lakeward.write.spark.altering"),
        ("No tags", "lakeward.lake.tagging"),
    ],
)
def test_what_is_there_is_not_called_missing(claim: str, module: str) -> None:
    cannot = PAGE.text.partition("## What Lakeward cannot do")[2].partition("\n## ")[0]
    assert cannot
    assert find_spec(module) is not None
    assert claim not in cannot
