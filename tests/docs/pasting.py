"""Follows pages as a reader does, who pastes every block, in order, into an empty Python or shell.

The reader's Python is a process of its own that has imported nothing, in an empty directory; shell
blocks run in the same directory. Nothing is set up that the page does not show::

    .venv/bin/python -m tests.docs.pasting docs/merge.md    writes what blocks print into the page
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tests.docs.pages import ROOT, Block, Page

NEEDS: Final[dict[str, str]] = {
    "docs/cloud.md": "s3",
    "docs/operations.md": "postgres",
    "docs/pipelines.md": "spark",
    "docs/spark.md": "spark",
    "docs/streaming.md": "spark",
}
"""Pages that say that they need a server or Spark, with the mark of their tests."""
PRINTS: Final = "prints"
NOISE: Final = (
    "CATALOG_NOT_FOUND",
    "Your hostname",
    "NativeCodeLoader",
    "default log4j profile",
    "default log level",
    "Truncated the string",
    "locally checkpointed",
)
"""What Spark tells of itself that nobody who runs a transaction can do anything about."""
_INSTALLS: Final = ("make", "pip", "python3")
_PYTHON: Final = """
import contextlib, io, json, os, sys, traceback, types

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    told = json.loads(line)
    if "page" in told:
        spark = sys.modules.get("pyspark.sql")
        if spark and spark.SparkSession.getActiveSession():
            spark.SparkSession.getActiveSession().stop()
        os.chdir(told["page"])
        main = sys.modules["__main__"] = types.ModuleType("__main__")
    printed, error = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(told.get("block", ""), "<stdin>", "exec"), main.__dict__)
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps([printed.getvalue(), error]), file=answers, flush=True)
answers.close()
"""


@dataclass
class Python:
    """An interactive Python of a reader."""

    process: subprocess.Popen[str]
    errors: IO[str]
    told_at_the_end: str = ""

    def begin(self, directory: Path) -> None:
        """Forget all names, as a new Python would, end Spark, and go to a directory."""
        self._ask({"page": str(directory)})

    def paste(self, block: Block) -> str:
        """What a block prints."""
        printed, error = self._ask({"block": block.text})
        assert error is None, f"{block}\n{error}"
        return printed

    def told(self) -> str:
        """What came on standard error."""
        self.errors.seek(0)
        return self.errors.read()

    def _ask(self, told: dict[str, str]) -> tuple[str, str | None]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"Python ended: {self.told()}"
        printed, error = json.loads(answer)
        return printed, error


@contextmanager
def started(around: Mapping[str, str], executable: str = sys.executable) -> Iterator[Python]:
    """A Python that has imported nothing, with these variables in its environment."""
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [executable, "-W", "error", "-c", _PYTHON],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment(around, executable),
            cwd="/",
        ) as process,
    ):
        python = Python(process, errors)
        try:
            yield python
        except BaseException:
            process.kill()
            raise
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
        python.told_at_the_end = python.told()


def environment(around: Mapping[str, str], executable: str = sys.executable) -> dict[str, str]:
    """The variables of a reader who has installed Lakeward and set nothing."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LAKEWARD_", "PYTHON"))}
    path = f"{Path(executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "COLUMNS": "120", "TERM": "xterm", **around}


def follow(
    page: Page,
    directory: Path,
    python: Python,
    in_shell: Callable[[str], str],
) -> Iterator[tuple[Block, str]]:
    """Paste the blocks of a page, in order, in a directory; gives each and what it prints.

    `in_shell` runs the lines of a shell block there.
    """
    python.begin(directory)
    for block in page.blocks:
        if block.language == "python" and is_file(block):
            (directory / block.title).write_text(block.text)
        elif block.language == "python":
            yield block, python.paste(block)
        elif block.language == "sh" and not installs(block):
            yield block, in_shell(block.text)


def shell(
    text: str, directory: Path, around: Mapping[str, str], executable: str = sys.executable
) -> str:
    """What lines print that are pasted into a shell, whose path begins with that of a Python."""
    done = subprocess.run(
        ["bash", "-e", "-c", text],
        cwd=directory,
        env=environment(around, executable),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    return done.stdout


def is_file(block: Block) -> bool:
    """Whether the page asks the reader to save a block under the name in its title."""
    return bool(block.title) and not block.title.startswith("examples/")


def installs(block: Block) -> bool:
    """Whether a shell block is about the clone or an environment, and not run in a directory."""
    words = [line.split()[0] for line in block.text.splitlines() if line.strip()]
    return all(word.rpartition("/")[2] in _INSTALLS for word in words)


def write(page: Page, around: Mapping[str, str]) -> None:
    """Put what the blocks of a page print below them."""
    with tempfile.TemporaryDirectory() as directory, started(around) as python:
        place = Path(directory)
        printed = list(follow(page, place, python, lambda text: shell(text, place, around)))
    lines, moved = page.text.splitlines(), 0
    shown: dict[int, Block] = {}
    for block, following in zip(page.blocks, page.blocks[1:], strict=False):
        if following.title == PRINTS:
            shown[block.line] = following
    for block, text in printed:
        if block.language != "python":
            continue
        end = block.line + block.text.count("\n") + 1 + moved
        old = shown.get(block.line)
        if old is not None:
            start = old.line + moved
            stop = start + old.text.count("\n") + 1
            lines[end:stop] = []
            moved -= stop - end
        if text:
            new = ["", f'```text title="{PRINTS}"', *text.rstrip("\n").split("\n"), "```"]
            lines[end:end] = new
            moved += len(new)
    page.path.write_text("\n".join(lines) + "\n")


def main(*names: str) -> None:
    """Write the outputs of pages; their variables are those of this process."""
    given: dict[str, Any] = {k: v for k, v in os.environ.items() if k.startswith("LAKEWARD_")}
    for name in names:
        write(Page(ROOT / name), given)


if __name__ == "__main__":
    main(*sys.argv[1:])
