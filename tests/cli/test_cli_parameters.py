"""`--param`: values with their types mean themselves, whatever is in them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from tests.cli.console import ask, run

DAY, MOMENT = date(2026, 1, 31), datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
_NONE: dict[str, Any] = {"s": None, "n": None, "day": None, "ts": None, "b": None, "t": None}
ROWS: list[dict[str, Any]] = [
    {**_NONE, "id": 1, "s": "x' OR '1'='1"},
    {**_NONE, "id": 2, "s": "back\\slash\\"},
    {**_NONE, "id": 3, "s": "=a:int=1"},
    {**_NONE, "id": 4, "n": Decimal("-1.50")},
    {**_NONE, "id": 5, "day": DAY},
    {**_NONE, "id": 6, "ts": MOMENT},
    {**_NONE, "id": 7, "b": b"\x00'\xff"},
    {**_NONE, "id": 8, "t": False},
    {**_NONE, "id": 9, "s": ""},
]
CASES = [
    ("s = :v", "v=x' OR '1'='1", {1}),
    ("s = :v", "v:text=back\\slash\\", {2}),
    ("s = :v", "v==a:int=1", {3}),
    ("s = :v", "v=", {9}),
    ("s = :v", "v:null=", set()),
    ("n = :v", "v:decimal=-1.50", {4}),
    ("day >= :v", "v:date=2026-01-31", {5}),
    ("day > :v", "v:date=2026-01-31", set()),
    ("ts = :v", "v:timestamp=2026-01-31T13:00:00.000005+01:00", {6}),
    ("b = :v", "v:bytes=0027ff", {7}),
    ("t = :v", "v:bool=false", {8}),
    ("id < :v", "v:int=2", {1}),
    ("id < :v", "v:float=1.5", {1}),
    ("id IN (:v)", "v:json=[1, 2, null]", {1, 2}),
    ("day IN (:v)", 'v:json=[{"type": "date", "value": "2026-01-31"}]', {5}),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("parameters") / "lake"
    schema = "id int64, s string, n decimal(9,2), day date, ts timestamp, b binary, t boolean"
    with lw.open(place) as made:
        made.create("t", schema).append(ROWS)
    return place


@pytest.mark.parametrize(("where", "param", "wanted"), CASES)
def test_a_value_finds_its_rows_in_every_command(
    lake: Path, tmp_path: Path, where: str, param: str, wanted: set[int]
) -> None:
    given = ("--param", param, "--lake", lake)
    queried = ask("sql", f"SELECT id FROM t WHERE {where}", *given)["rows"]
    read = ask("read", "t", "--where", where, *given)["rows"]
    (done,) = ask("export", tmp_path / "out", "t", "--where", where, "--format", "jsonl", *given)[
        "exports"
    ]
    exported = (tmp_path / "out" / "part-00000.jsonl").read_text().splitlines()

    assert {row["id"] for row in queried} == wanted
    assert {row["id"] for row in read} == wanted
    assert {json.loads(line)["id"] for line in exported} == wanted
    assert done["rows"] == len(wanted)


def test_deleted_and_changed_rows_are_chosen_by_values(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    with lw.open(place) as made:
        made.create("t", "id int64, s string").append([{"id": n, "s": "o'x"[:n]} for n in (1, 3)])
    given = ("--where", "s = :s", "--param", "s=o'x", "--lake", place)
    lines = run("changes", "t", "--since", "1", "--json", *given)
    assert [json.loads(line)["id"] for line in lines.out.splitlines()] == [3]
    assert ask("delete", "t", "--yes", *given)["deleted"] == 1
    with lw.open(place) as made:
        assert made.table("t").to_arrow()["id"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("param", "said"),
    [
        ("x", "NAME=VALUE"),
        ("1x=3", "NAME=VALUE"),
        ("x:=3", "NAME=VALUE"),
        ("x:number=3", "unknown type"),
        ("x:int=3.5", "not a value of type int"),
        ("x:int=1 OR true", "not a value of type int"),
        ("x:date=2026-02-30", "2026-01-31"),
        ("x:bool=yes", "true or false"),
        ("x:bytes=0g", "hexadecimal"),
        ("x:decimal=ten", "not a value of type decimal"),
        ("x:json={", "JSON"),
        ('x:json={"a": 1}', "not a type with a value"),
        ("x:null=null", "nothing after"),
    ],
)
def test_a_value_that_is_not_of_its_type_is_refused(lake: Path, param: str, said: str) -> None:
    for command in (("sql", "SELECT 1"), ("read", "t", "--where", "id = :x")):
        answer = run(*command, "--param", param, "--lake", lake)
        assert answer.code == 2
        assert said in answer.err.replace("\n", " ")


def test_parameters_without_a_condition_are_refused(lake: Path, tmp_path: Path) -> None:
    twice = ("--param", "x=1", "--param", "x=2", "--lake", lake)
    for command in (
        ("read", "t", "--param", "x=1", "--lake", lake),
        ("export", tmp_path / "out", "t", "--param", "x=1", "--lake", lake),
        ("export", tmp_path / "out", "--param", "x=1", "--lake", lake),
        ("changes", "--param", "x=1", "--lake", lake),
        ("read", "t", "--where", "s = :x", *twice),
        ("read", "t", "--where", "s = :y", "--param", "x=1", "--lake", lake),
    ):
        assert run(*command).code == 2
    assert not (tmp_path / "out").exists()
