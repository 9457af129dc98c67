"""Passwords are in nothing that is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.model.masking import Mask
from tests.cli.console import ask, program, run

URLS = (
    "postgresql://bob:S3cr3tWord@127.0.0.1:1/db",
    "postgresql://bob:S3cr3tWord@127.0.0.1:1/db?sslmode=nonsense",
    "postgresql://bob@127.0.0.1:1/db?password=S3cr3tWord",
    "postgresql://bob:S3cr3tWord%2Fx@127.0.0.1:1/db",
    "postgresql://bob:S3cr3tWord/x@127.0.0.1:1/db",
    "postgresql://bob:S3cr3tWord#x@127.0.0.1:1/db",
    "postgresql://bob:S3cr3tWord@[::1/db",
    "postgresql+psycopg://bob:S3cr3tWord@127.0.0.1:1/db",
    "postgres://bob:S3cr3tWord@127.0.0.1:1/db",
    "mysql://bob:S3cr3tWord@127.0.0.1:1/db",
)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("form", ["--json", None])
@pytest.mark.parametrize("debug", ["1", ""])
def test_no_error_tells_the_password(
    url: str, form: str | None, debug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWARD_DEBUG", debug)
    answer = run("--lake", url, "--warehouse", "w", "tables", *([form] if form else []))
    assert answer.code in (2, 7), answer
    assert "S3cr3tWord" not in answer.out + answer.err


def test_a_password_from_the_environment_is_not_told_by_the_program() -> None:
    result = program("tables", LAKEWARD_LAKE=URLS[1], LAKEWARD_WAREHOUSE="w", LAKEWARD_DEBUG="1")
    assert result.returncode == 7
    assert "Traceback" in result.stderr
    assert "S3cr3tWord" not in result.stdout + result.stderr


def test_a_url_in_any_text_is_masked() -> None:
    text = "cannot reach postgresql://bob:hush@host/db or redis://:hush2@host"
    expected = "cannot reach postgresql://bob:***@host/db or redis://:***@host"
    assert Mask()(text) == expected


def test_pieces_of_a_password_are_masked() -> None:
    mask = Mask("postgresql://bob:first/second@host/db")
    assert mask('invalid port number: "first"') == 'invalid port number: "***"'
    assert mask("tail second@host") == "tail ***@host"


def test_a_password_in_a_pair_is_masked() -> None:
    assert Mask()("host=h password=hush dbname=d") == "host=h password=*** dbname=d"
    assert Mask()("password='hu sh'") == "password=***"
    assert Mask("postgresql://h/db?password=hush")("got hush") == "got ***"


def test_words_that_are_no_secret_stay() -> None:
    mask = Mask("postgresql://postgres:postgres@host/db")
    assert mask("the server postgres at host") == "the server postgres at host"
    assert Mask("postgresql://bob:cat@host/db")("concatenate") == "concatenate"


def test_nested_facts_are_masked() -> None:
    mask = Mask("postgresql://bob:hush@host/db")
    assert mask.deeply({"a": ["hush", {"b": ("hush", 1)}]}) == {"a": ["***", {"b": ["***", 1]}]}


@pytest.mark.postgres
def test_no_answer_tells_the_password(postgres_url: str, tmp_path: Path) -> None:
    url = postgres_url.replace("postgres@", "postgres:S3cr3tWord@")
    lake = ("--lake", url, "--warehouse", tmp_path / "warehouse")
    commands: list[tuple[str, ...]] = [
        ("init",),
        ("create", "t", "id int64"),
        ("tables",),
        ("show", "t"),
        ("doctor",),
        ("show", "nosuch"),
        ("backup", "copy.zip"),
    ]
    for arguments in commands:
        for form in ([], ["--json"]):
            answer = run(*arguments, *lake, *form)
            assert answer.code in (0, 3, 4), answer
            assert answer.out + answer.err
            assert "S3cr3tWord" not in answer.out + answer.err
    assert ask("tables", *lake)["lake"].startswith("postgresql://")
