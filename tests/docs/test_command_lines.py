"""Command lines of pages, run in this process and compared with what is shown below them.

`tests/docs/test_pages.py` runs the lines, in the order of their pages. Times, ids, sizes, names of
people and absolute paths differ from run to run, and with them the widths of columns; everything
else is compared.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator

from typer.main import get_command

from lakeward.cli.main import app
from tests.docs.pages import ROOT

_ENDS = re.compile(r"  # ends with (\d+)$")
_VARYING = (
    (re.compile(r"\x1b\[[\d;]*m"), ""),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)"), "TIME"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"-[0-9a-f]{4}(?=\.\w+\.parquet)"), "-TOKEN"),
    (re.compile(r"\d+(?:\.\d+)? (?:bytes|[kMG]B)"), "SIZE"),
    (re.compile(r"\d+\.\d+ s\b"), "SECONDS"),
    (re.compile(r"[\w.-]+@[\w.-]+"), "ACTOR"),
    (re.compile(r"\b[\w.-]+:\d+\b"), "PROCESS"),
    (re.compile(r"(?<![\w.])/[\w./-]*?(?=lake|[\w-]+\.(?:db|zip))"), ""),
    (re.compile(r"[─\s]+"), " "),
)


class Terminal(io.StringIO):
    """What a person looks at."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_every_command_is_listed() -> None:
    text = (ROOT / "docs/cli.md").read_text()
    missing = [name for name in all_commands() if f"| `lakeward {name}" not in text]
    assert not missing


def run_line(command: str) -> str:
    """What a line of the program prints; it must end as its comment says, or with 0."""
    ends = _ENDS.search(command)
    program, *arguments = shlex.split(_ENDS.sub("", command))
    assert program == "lakeward", command
    out = io.StringIO() if "--json" in arguments else Terminal()  # JSON is for programs
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = get_command(app).main(arguments, standalone_mode=False)
    assert code == (int(ends[1]) if ends else 0), (command, out.getvalue(), err.getvalue())
    return out.getvalue()


def is_plain(line: str) -> bool:
    """Whether a line runs the program and asks nothing of the shell: no pipe, no redirection."""
    words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
    return words[0] == "lakeward" and not any(set(word) <= set("();<>|&") for word in words if word)


def alike(text: str) -> str:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text.strip()


def all_commands() -> Iterator[str]:
    for name, command in getattr(get_command(app), "commands", {}).items():
        below = getattr(command, "commands", None)
        if below is None:
            yield name
        else:
            yield from (f"{name} {other}" for other in below)
