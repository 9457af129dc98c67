"""Every class of error has its exit code and its two forms; what is unexpected is no traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.main import get_command

from lakeward import errors
from lakeward.cli.context import Cli
from lakeward.cli.exits import EXITS
from lakeward.cli.program import Program, command
from lakeward.errors import LakewardError
from tests.cli.console import run, tell


def _all(kind: type[LakewardError]) -> Iterator[type[LakewardError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _all(below)


KINDS = [k for k in _all(LakewardError) if k.__module__ == errors.__name__]


def _failing(error: BaseException) -> typer.Typer:
    """A program with one command, which fails."""
    app = typer.Typer(cls=Program, pretty_exceptions_enable=False)

    @app.callback()
    def root() -> None:
        pass

    def fail(cli: Cli) -> None:
        raise error

    command(app, "fail")(fail)
    return app


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_an_error_becomes_its_code_and_tells_its_facts(kind: type[LakewardError]) -> None:
    app = _failing(kind("It broke.", hint="Mend it.", table="t", version=7))
    answer = run("fail", "--json", app_=app)
    assert answer.code == kind.exit_code
    assert answer.json == {
        "error": {
            "type": kind.__name__,
            "message": "It broke.",
            "hint": "Mend it.",
            "facts": {"table": "t", "version": 7},
        }
    }
    text = run("fail", app_=app)
    assert (text.code, text.out) == (kind.exit_code, "")
    assert text.err.split("\n") == ["error: It broke.", "Mend it.", ""]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_code_is_in_the_table_that_the_help_shows(kind: type[LakewardError]) -> None:
    assert kind.exit_code in EXITS


def test_the_help_shows_every_code() -> None:
    text = tell("--help")
    for code, what in EXITS.items():
        assert f"{code}  {what}" in " ".join(text.split(" ")), code


def test_a_mistake_of_ours_is_told_without_a_traceback() -> None:
    app = _failing(RuntimeError("oops"))
    answer = run("fail", app_=app)
    assert answer.code == 1
    assert "error: oops" in answer.err
    assert "mistake in Lakeward" in answer.err
    assert "Traceback" not in answer.err
    assert run("fail", "--json", app_=app).error["type"] == "RuntimeError"


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEWARD_DEBUG", "1")
    app = _failing(errors.Conflict("Lost."))
    answer = run("fail", "--json", app_=app)
    assert answer.code == 5
    assert "Traceback" in answer.err
    assert answer.error["type"] == "Conflict"


def test_an_interruption_ends_with_its_code() -> None:
    answer = run("fail", "--json", app_=_failing(KeyboardInterrupt()))
    assert answer.code == 130
    assert answer.error["type"] == "Interrupted"
    text = run("fail", app_=_failing(KeyboardInterrupt()))
    assert (text.code, text.out, text.err) == (130, "", "error: Interrupted.\n")


BROKEN = BrokenPipeError(errno.EPIPE, "Broken pipe")


def _unread(monkeypatch: pytest.MonkeyPatch, error: Exception, *form: str) -> int:
    """The exit code of a failing command whose output is a pipe that its reader has closed."""
    reader, writer = os.pipe()
    os.close(reader)
    program: Any = get_command(_failing(error))
    with os.fdopen(writer, "w") as out, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        return int(program.main(["fail", *form], standalone_mode=False))


def test_a_closed_pipe_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _unread(monkeypatch, BROKEN) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_command_that_fails_says_so_by_its_code_also_after_the_pipe_is_closed(
    monkeypatch: pytest.MonkeyPatch, form: list[str]
) -> None:
    assert _unread(monkeypatch, errors.Conflict("Lost."), *form) == 5


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_broken_pipe_that_is_not_the_output_is_an_error(form: list[str]) -> None:
    answer = run("fail", *form, app_=_failing(BROKEN))
    assert answer.code == errors.StorageError.exit_code
    assert "Broken pipe" in answer.out + answer.err


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("kind", [errors.StoreUnavailable, ValueError])
def test_an_error_that_quotes_a_password_is_masked(
    form: list[str], kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWARD_DEBUG", "1")
    url = "postgresql://bob:S3cr3tWord@host/db"
    error: Exception = ValueError(f"bad {url}, bad S3cr3tWord")
    if kind is not ValueError:
        error = errors.StoreUnavailable(f"no {url}", hint=f"try {url}", urls=[url, "S3cr3tWord"])
    answer = run("fail", "--lake", url, *form, app_=_failing(error))
    assert answer.code in (1, 7)
    assert "Traceback" in answer.err
    assert "***" in answer.out + answer.err
    assert "S3cr3tWord" not in answer.out + answer.err


def test_facts_that_json_lacks_are_spelled() -> None:
    error = errors.ConstraintViolation("Bad.", sample=[{"x": float("nan"), "y": b"\x00"}], one={1})
    facts = run("fail", "--json", app_=_failing(error)).error["facts"]
    assert facts == {"sample": [{"x": "nan", "y": "AA=="}], "one": [1]}
