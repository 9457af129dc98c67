"""`changes` and `diff --rows`: changed rows on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from tests.cli.console import ask, clean_environment, run, tell


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_changes_print_a_line_for_each_row(shop: Path) -> None:
    answer = run("changes", "sales.orders", "--since", "3", "--json", "--lake", shop)
    found = _lines(answer.out)

    assert answer.code == 0
    assert sorted(r["id"] for r in found) == [0, 1, 2, 3, 4]
    assert {(r["_change_type"], r["_commit_version"]) for r in found} == {("delete", 3)}
    assert run("changes", "sales.orders", "--json", "--lake", shop).out == answer.out
    text = tell(
        "changes", "sales.orders", "--since", "3", "--columns", "id", "--where", "id = 4",
        "--lake", shop,
    )  # fmt: skip
    assert text.strip() == "- 3 id=4"


def test_without_a_table_the_transactions_of_the_lake_are_lines(shop: Path) -> None:
    found = _lines(run("changes", "--json", "--lake", shop).out)

    assert [sorted(c["tables"]) for c in found] == [
        ["sales.orders"],
        ["audit"],
        ["sales.orders"],
        ["audit", "sales.orders"],
        ["sales.orders"],
    ]
    assert found[3]["message"] == "both"
    assert found[3]["tables"]["audit"]["version"] == 1
    since = ["--since", "both-tables", "--limit", "1"]
    assert _lines(run("changes", *since, "--json", "--lake", shop).out) == [found[3]]
    assert "audit 1 (WRITE)" in tell("changes", *since, "--lake", shop)


def test_who_follows_from_the_newest_state_waits_for_the_next_version(own_shop: Path) -> None:
    assert run("tag", "create", "the-newest", "--lake", own_shop).code == 0
    for since in ("the-newest", "4", "2999-01-01"):
        asked = ("changes", "sales.orders", "--since", since, "--json", "--lake", own_shop)
        assert run(*asked).code == 3
        answer = run(*asked, "--follow", "--timeout", "0")
        assert (answer.code, answer.out) == (0, ""), since
    assert run("changes", "sales.orders", "--since", "5", "--follow", "--lake", own_shop).code == 3


def test_lines_come_while_others_commit(own_shop: Path) -> None:
    command = ["changes", "sales.orders", "--follow", "--since", "3", "--limit", "6", "--json"]
    with (
        subprocess.Popen(
            [sys.executable, "-m", "lakeward", *command, "--lake", str(own_shop)],
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        ) as follower,
        lw.open(own_shop) as lake,
    ):
        assert follower.stdout is not None
        first = [json.loads(follower.stdout.readline()) for _ in range(5)]
        lake.table("sales.orders").append([{"id": 99, "region": "north", "amount": 1.0}])
        (last,) = _lines(follower.stdout.read())
        assert follower.wait(60) == 0

    assert {r["_change_type"] for r in first} == {"delete"}
    assert (last["id"], last["_change_type"], last["_commit_version"]) == (99, "insert", 4)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["sales.orders", "--since", "9"], 3, "no version 9"),
        (["sales.orders", "--since", "2", "--until", "1"], 2, "before it begins"),
        (["sales.orders", "--follow", "--until", "1"], 2, "--until cannot be combined"),
        (["--where", "id = 1"], 2, "Name a table"),
        (["nope"], 3, "no table nope"),
        (["--since", "nothing"], 3, "neither a moment"),
    ],
)
def test_bad_ranges_are_refused(shop: Path, arguments: list[str], code: int, words: str) -> None:
    answer = run("changes", *arguments, "--lake", shop)

    assert answer.code == code
    assert words in " ".join(answer.err.split())


def test_diff_shows_rows_old_and_new(own_shop: Path) -> None:
    with lw.open(own_shop) as lake:
        lake.table("sales.orders").update(set={"amount": "100"}, where="id = 7")
    found = ask("diff", "sales.orders", "2", "--rows", "--key", "id", "--lake", own_shop)["rows"]

    assert (found["inserted"], found["deleted"], found["changed"]) == (0, 5, 1)
    assert found["columns"] == {"amount": 1}
    text = tell("diff", "sales.orders", "3", "--rows", "--key", "id", "--lake", own_shop)
    assert "~ id=7 region=south amount=7.5→100.0" in text
    with_other = ask("diff", "sales.orders", "2", "--with", "sales.orders", "--lake", own_shop)
    assert (with_other["inserted"], with_other["deleted"]) == (1, 6)
    assert run("diff", "sales.orders", "--key", "id", "--lake", own_shop).code == 2


def test_a_value_that_is_not_a_number_is_not_shown_as_changed(own_shop: Path) -> None:
    with lw.open(own_shop) as lake:
        table = lake.create("t", {"id": "int64", "x": "float64"})
        table.append({"id": [1], "x": [float("nan")]})
        table.alter().add_column("v", "int64").commit()
        table.update(set={"v": "1"})
    text = tell("diff", "t", "1", "--rows", "--key", "id", "--lake", own_shop)

    assert "~ id=1 x=nan v=None→1" in text
