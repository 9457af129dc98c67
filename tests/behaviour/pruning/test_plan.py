"""Plans: the files that a condition needs, no fewer and, where bounds can tell, no more."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from tests.behaviour.lakes import append, delete

_FILES = 20
_TEXTS = [f"{chr(97 + n)}-{'x' * 50}" for n in range(_FILES)]


def _row(number: int) -> dict[str, Any]:
    """A row of file number // 10: every column grows with the file."""
    file = number // 10
    return {
        "id": number,
        "small": file - 10,
        "text": f"{_TEXTS[file]}{number % 10}",
        "day": date(2026, 1, 1) + timedelta(days=number),
        "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=number),
        "price": Decimal(number) / 100,
        "ratio": number / 10,
        "part": file % 4,
        "flag": file % 2 == 0,
        "maybe": None if file % 5 == 0 else number,
    }


@pytest.fixture(scope="module")
def table(shared_lake: lw.Lake, table_format: str) -> lw.Table:
    """Twenty files of ten rows each; file n holds the ids from 10 n on."""
    name = "space.plans"
    table = shared_lake.create(
        name,
        {
            "id": "int64",
            "small": "int8" if table_format == "delta" else "int32",
            "text": "string",
            "day": "date",
            "at": "timestamp",
            "price": pa.decimal128(10, 2),
            "ratio": "double",
            "part": "int32",
            "flag": "boolean",
            "maybe": "int64",
        },
        partition_by=["part"],
    )
    with shared_lake.transaction() as tx:
        for file in range(_FILES):
            tx.append(name, [_row(n) for n in range(file * 10, file * 10 + 10)])
    return table


def _planned(table: lw.Table, where: str) -> list[int]:
    """The numbers of the files in the plan."""
    ordered = table.files()
    wanted = {f.path for f in table.files(where=where)}
    return [n for n, f in enumerate(ordered) if f.path in wanted]


_CASES: list[tuple[str, list[int]]] = [
    ("id = 57", [5]),
    ("id = 1000", []),
    ("id = -1", []),
    ("57 = id", [5]),
    ("id > 189", [19]),
    ("id >= 189", [18, 19]),
    ("id < 10", [0]),
    ("id <= 10", [0, 1]),
    ("id BETWEEN 95 AND 105", [9, 10]),
    ("id > 50 AND id < 70", [5, 6]),
    ("id IN (5, 15, 199)", [0, 1, 19]),
    ("id IN (1000, 2000)", []),
    ("id = 5 OR id = 155", [0, 15]),
    ("NOT (id < 190)", [19]),
    ("NOT (id > 9)", [0]),
    ("id = 5 AND id = 155", []),
    ("id > 20 AND false", []),
    ("id IS NULL", []),
    ("id IS NOT NULL", list(range(_FILES))),
    ("small = -10", [0]),
    ("small < -8", [0, 1]),
    ("text = 'c-" + "x" * 50 + "3'", [2]),
    ("text < 'b'", [0]),
    ("text >= 't'", [19]),
    ("text LIKE 'd-%'", [3]),
    ("text LIKE 'nothing%'", []),
    ("text IN ('a', 'zz')", []),
    ("day = '2026-01-16'", [1]),
    ("day < DATE '2026-01-11'", [0]),
    ("day BETWEEN '2026-01-10' AND '2026-01-12'", [0, 1]),
    ("at = '2026-01-01 00:00:00.000057'", [5]),
    ("at > TIMESTAMP '2026-01-01 00:00:00.000189'", [19]),
    ("at < '2026-01-01'", []),
    ("price = 0.57", [5]),
    ("price > 1.89", [19]),
    ("price < 0.1", [0]),
    ("ratio = 5.7", [5]),
    ("ratio >= 19.05", [19]),
    ("part = 1", [1, 5, 9, 13, 17]),
    ("part = 1 AND id < 60", [1, 5]),
    ("part IN (1, 2) AND id < 30", [1, 2]),
    ("part > 3", []),
    ("flag AND id < 40", [0, 2]),
    ("NOT flag AND id < 40", [1, 3]),
    ("maybe IS NULL", [0, 5, 10, 15]),
    ("maybe IS NULL AND id > 120", [15]),
    ("maybe IS NOT NULL AND id < 20", [1]),
    ("maybe = 55", []),
    ("maybe = 65", [6]),
    ("maybe < 100", [1, 2, 3, 4, 6, 7, 8, 9]),
]


@pytest.mark.parametrize(("where", "files"), _CASES, ids=[where for where, _ in _CASES])
def test_a_plan_has_exactly_the_files_that_are_needed(
    table: lw.Table, where: str, files: list[int]
) -> None:
    assert _planned(table, where) == files


def test_plans_of_older_versions_know_older_files(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    for start in (0, 10, 20):
        append(shared_lake, name, {"id": range(start, start + 10)})
    delete(shared_lake, name, "id >= 10 AND id < 20")

    assert len(table.files(where="id = 15")) == 0
    assert [len(table.at(version=v).files(where="id = 15")) for v in range(5)] == [0, 0, 1, 1, 0]
    assert table.at(version=3).to_arrow(where="id = 15")["id"].to_pylist() == [15]


def test_columns_beyond_the_index_still_prune(shared_lake: lw.Lake, name: str) -> None:
    names = [f"c{n}" for n in range(40)]
    table = shared_lake.create(name, dict.fromkeys(names, "int64"))
    for value in (1, 2):
        append(shared_lake, name, {key: [value] for key in names})

    assert len(table.files(where="c31 = 1")) == 1
    assert table.to_arrow(where="c39 = 1")["c0"].to_pylist() == [1]


def test_conditions_without_bounds_read_everything(table: lw.Table) -> None:
    assert len(_planned(table, "id % 7 = 3")) == _FILES
    assert len(_planned(table, "length(text) > 3")) == _FILES
    assert table.to_arrow(where="id % 7 = 3")["id"].to_pylist() == list(range(3, 200, 7))


def test_an_empty_table_has_an_empty_plan(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})

    assert table.files(where="id = 1") == []
    assert table.to_arrow(where="id = 1").num_rows == 0
