"""Running the command line: in this process for most tests, as a program of its own for some."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from typer.testing import CliRunner

import lakeward as lw
from lakeward.cli.main import app


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        found = orjson.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def error(self) -> dict[str, Any]:
        """The error in that object."""
        found = self.json["error"]
        assert set(found) == {"type", "message", "hint", "facts"}
        assert isinstance(found, dict)
        return found


def run(*arguments: str | Path, app_: Any = app) -> Answer:
    """Run a command in this process."""
    result = CliRunner().invoke(app_, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def ask(*arguments: str | Path) -> dict[str, Any]:
    """Run a command that must succeed with `--json`; its answer."""
    answer = run(*arguments, "--json")
    assert answer.code == 0, answer
    assert answer.err == ""
    return answer.json


def tell(*arguments: str | Path) -> str:
    """Run a command that must succeed; its text."""
    answer = run(*arguments)
    assert answer.code == 0, answer
    return answer.out


def program(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program itself."""
    return subprocess.run(
        [sys.executable, "-m", "lakeward", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=clean_environment(**environment),
        timeout=240,
        check=False,
    )


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without what changes how the program looks or which lake it takes."""
    unwanted = ("LAKEWARD_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
    return {**kept, **more}


def make_shop(directory: Path) -> Path:
    """A lake with a partitioned table, another one, and a transaction over both."""
    with lw.open(directory, actor="tester") as lake:
        lake.create(
            "sales.orders",
            {"id": "int64", "region": "string", "amount": "double"},
            partition_by=["region"],
            constraints={"positive": "amount > 0"},
            comment="what was sold",
        )
        # Lists show transactions of one millisecond in no order of time.
        time.sleep(0.002)
        lake.create("audit", {"note": "string"})
        time.sleep(0.002)
        with lake.transaction(message="first") as tx:
            tx.append("sales.orders", [_order(n) for n in range(30)])
        time.sleep(0.002)
        with lake.transaction(message="both", transaction_id="both-tables") as tx:
            tx.append("sales.orders", [_order(n) for n in range(30, 40)])
            tx.append("audit", [{"note": "ten more"}])
        time.sleep(0.002)
        with lake.transaction() as tx:
            tx.delete("sales.orders", where="id < 5")
    return directory


def _order(number: int) -> dict[str, Any]:
    return {"id": number, "region": ("north", "south")[number % 2], "amount": number + 0.5}
