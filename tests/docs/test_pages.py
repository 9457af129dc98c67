"""Every page is followed as it is read: its blocks, pasted in order, run and print what it shows.

`tests/docs/pasting.py` says what the reader has; nothing else is set up here.
"""

from __future__ import annotations

import codeop
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import EXAMPLES, ROOT, Block, Page, blocks, pages
from tests.docs.pasting import (
    NEEDS,
    NOISE,
    PRINTS,
    Python,
    follow,
    installs,
    is_file,
    shell,
    started,
)
from tests.docs.test_command_lines import alike, is_plain, run_line
from tests.support.s3 import S3Server
from tests.support.sparks import PROGRAM

RUNS = ("python", "sh")
MADE_OF_MISTAKES = "mistakes.md"
_COMMAND = re.compile(
    r"^ *(?:lakeward|python3?|pip|spark-submit|beeline|export|docker|curl) ", re.MULTILINE
)
"""Shows lines with what they print, which is always an error; another test writes it."""
PAGES = [p for p in pages() if any(b.language in RUNS and not installs(b) for b in p.blocks)]


@pytest.mark.parametrize("page", [p for p in PAGES if str(p) not in NEEDS], ids=str)
def test_the_blocks_of_a_page_run_as_pasted(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed(page, tmp_path, monkeypatch, {})


@pytest.mark.postgres
@pytest.mark.parametrize("page", [p for p in PAGES if NEEDS.get(str(p)) == "postgres"], ids=str)
def test_the_blocks_of_a_page_run_as_pasted_with_a_database(
    page: Page, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed(page, tmp_path, monkeypatch, {"LAKEWARD_LAKE": postgres_url})


@pytest.mark.s3
@pytest.mark.parametrize("page", [p for p in PAGES if NEEDS.get(str(p)) == "s3"], ids=str)
def test_the_blocks_of_a_page_run_as_pasted_with_a_bucket(
    page: Page,
    s3_server: S3Server,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    around: dict[str, Any] = s3_server.options()
    followed(page, tmp_path, monkeypatch, {"LAKEWARD_WAREHOUSE": f"s3://{bucket}/wh", **around})


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_blocks_of_pages_on_spark_run_as_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One process for all of them, because a Java starts slowly. Each page begins without names, in
    # an empty directory (the same one: a Java cannot go to another), and starts its own session.
    around = {"LAKEWARD_CACHE": str(ROOT / ".jars"), **PROGRAM}
    with started(around) as python:
        for page in (p for p in PAGES if NEEDS.get(str(p)) == "spark"):
            python.begin(tmp_path)
            for left in tmp_path.iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            compare(page, tmp_path, python, monkeypatch, around)
        said = python.told()
    assert not [noise for noise in NOISE if noise in said], said


@pytest.mark.parametrize("block", [b for b in blocks("python") if b.title], ids=str)
def test_a_block_with_a_title_is_an_example_or_a_file_that_the_page_names(block: Block) -> None:
    if is_file(block):
        above = block.page.read_text().split("\n")[: block.line - 1]
        assert f"`{block.title}`" in "\n".join(above[-3:])
    else:
        assert block.text == (ROOT / block.title).read_text()


@pytest.mark.parametrize("block", [b for b in blocks("python") if not is_file(b)], ids=str)
def test_a_block_can_be_pasted_at_the_prompt_of_every_python(block: Block) -> None:
    """Before Python 3.13 an empty line ends an indented block there, and nothing else does."""
    typed: list[str] = []
    for line in [*block.text.splitlines(), ""]:
        typed.append(line)
        try:
            complete = codeop.compile_command("\n".join(typed), symbol="single")
        except SyntaxError:
            pytest.fail(f"{block}: no empty line inside an indented block, one after it: {line}")
        if complete is not None:
            typed = []
    assert not "".join(typed)


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_is_shown(name: str) -> None:
    assert any(b.title == f"examples/{name}" for b in blocks("python"))


def test_no_block_of_text_holds_commands() -> None:
    """They would not be run."""
    hidden = [b for b in blocks("text") if b.title != PRINTS and _COMMAND.search(b.text)]
    assert not [str(b) for b in hidden if b.page.name != MADE_OF_MISTAKES]


def test_blocks_are_programs_lines_of_a_shell_or_text() -> None:
    """A block of a console has prompts and answers among its lines, so it cannot be pasted."""
    known = ("python", "sh", "text", "sql")
    others = [b for page in pages() for b in page.blocks if b.language not in known]
    assert not [str(b) for b in others if b.page.name != MADE_OF_MISTAKES]


@pytest.mark.parametrize("block", [b for b in blocks("sh") if "make " in b.text], ids=str)
def test_targets_that_pages_name_are_there(block: Block) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", block.text, re.MULTILINE)) <= targets


def followed(
    page: Page, directory: Path, monkeypatch: pytest.MonkeyPatch, around: Mapping[str, str]
) -> None:
    """Follow a page with a Python of its own, and hold what it prints against what it shows."""
    with started(around) as python:
        compare(page, directory, python, monkeypatch, around)
    assert not python.told_at_the_end, python.told_at_the_end


def compare(
    page: Page,
    directory: Path,
    python: Python,
    monkeypatch: pytest.MonkeyPatch,
    around: Mapping[str, str],
) -> None:
    """Paste a page and compare what each block prints with what the page shows below it."""
    monkeypatch.chdir(directory)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    for name in [n for n in os.environ if n.startswith("LAKEWARD_")]:
        monkeypatch.delenv(name)
    after = {a.line: b for a, b in zip(page.blocks, page.blocks[1:], strict=False)}

    def in_shell(text: str) -> str:
        lines = text.splitlines()
        if not all(is_plain(line) for line in lines):
            return shell(text, directory, around)
        # Without a process for each, which would take most of the time of this test.
        return "".join(map(run_line, lines))

    for block, printed in follow(page, directory, python, in_shell):
        following = after.get(block.line)
        shown = following.text if following is not None and following.title == PRINTS else ""
        if block.language == "python":
            assert printed == shown, f"{block} does not print what the page shows"
        elif shown:
            assert alike(printed) == alike(shown), str(block)
