"""`lakeward sql`: rows for people and programs, changes, and the prompt."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import lakeward as lw
from tests.cli.console import ask, clean_environment, make_shop, run, tell


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with some tables."""
    return make_shop(tmp_path_factory.mktemp("sql") / "lake")


def test_rows_come_as_lines_csv_json_and_a_table(shop: Path) -> None:
    query = "SELECT id, region FROM sales.orders WHERE region = :r ORDER BY id LIMIT 2"
    options = ("--param", "r=north", "--lake", shop)
    with lw.open(shop) as lake:
        wanted = lake.sql(query, {"r": "north"}).to_pylist()
    lines = [f"{r['id']}\t{r['region']}" for r in wanted]
    assert tell("sql", query, *options).splitlines() == ["id\tregion", *lines]
    csv = tell("sql", query, "--csv", *options).splitlines()
    assert csv == ["id,region", *(line.replace("\t", ",") for line in lines)]
    found = ask("sql", query, *options)
    assert (found["rows"], found["more"]) == (wanted, False)
    assert "2 rows" in tell("sql", query, "--table", *options)
    assert (
        len(ask("sql", "SELECT * FROM sales.orders", "--limit", "1", "--lake", shop)["rows"]) == 1
    )


def test_changes_are_committed_and_mistakes_have_codes(shop: Path) -> None:
    done = ask("sql", "CREATE TABLE notes (id bigint, t string)", "--lake", shop)
    assert done["versions"] == {"notes": 0}
    done = ask("sql", "INSERT INTO notes VALUES (1, 'a'), (2, 'b')", "--lake", shop)
    assert (done["inserted"], done["versions"]) == (2, {"notes": 1})
    text = tell("sql", "DELETE FROM notes WHERE id = 1", "-m", "why", "--lake", shop)
    assert "1 deleted" in text
    with lw.open(shop) as lake:
        assert lake.table("notes").history(limit=1)[0].message == "why"
    assert run("sql", "SELECT * FROM nope", "--lake", shop).code == 3
    assert run("sql", "SELECT nope FROM notes", "--lake", shop).code == 2
    assert run("sql", "SELECT 1", "--param", "x", "--lake", shop).code == 2


def test_without_a_statement_a_prompt_asks_for_them(shop: Path, tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lakeward", "sql", "--lake", str(shop)],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=clean_environment(XDG_STATE_HOME=str(tmp_path), TERM="dumb"),
    )
    os.close(follower)
    os.write(leader, b"select 40 +\n2 as answer;\nselect * from nope;\n\\d\n\\q\n")
    said = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:
            break
        if not part:
            break
        said += part
    assert process.wait(timeout=60) == 0
    text = said.decode()
    assert "42" in text
    assert "no table nope" in text
    assert "orders" in text
    assert "answer" in (tmp_path / "lakeward" / "sql_history").read_text()
