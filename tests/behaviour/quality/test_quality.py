"""Expectations: each measure, where it is read from, its series, and what is said of failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

import lakeward as lw
from lakeward.cli.main import app
from lakeward.errors import InvalidInput

SCHEMA = {"id": "int64", "kind": "string", "amount": "double", "at": "timestamp"}
NOON = datetime(2040, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["delta", "iceberg"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[lw.Table]:
    with lw.open(tmp_path / "lake") as lake:
        yield lake.create("t", SCHEMA, format=request.param)


def rows(numbers: range, **changed: Any) -> list[dict[str, Any]]:
    own = {"kind": "a", "at": NOON}
    return [{"id": n, "amount": float(n), **own, **changed} for n in numbers]


def measured(table: lw.Table, **expectations: Any) -> dict[str, Any]:
    found = table.quality(expectations=expectations)
    return {m.name: (m.value, m.passed, m.origin) for m in found.measurements}


def test_each_measure_has_the_value_that_the_rows_have(table: lw.Table) -> None:
    table.append(rows(range(10)))
    table.append(rows(range(8, 12), kind="b", amount=None))
    assert measured(
        table,
        rows={"measure": "rows", "min": 15},
        nulls={"measure": "null_share", "column": "amount", "max": 0.3},
        kinds={"measure": "distinct", "column": "kind", "min": 2, "max": 2},
        range={"measure": "range", "column": "amount", "min": 0, "max": 8},
        wide={"measure": "range", "column": "amount", "min": -1},
        unique={"measure": "duplicates", "columns": ["id"]},
        condition="kind = 'a'",
        sure="id < 1000",
        sql={"measure": "sql", "query": "SELECT max(id) FROM {table}", "max": 11},
    ) == {
        "rows": (14, False, "log"),
        "nulls": (4 / 14, True, "log"),
        "kinds": (2, True, "files"),
        "range": (1, False, "files"),
        "wide": (0, True, "log"),
        "unique": (2, False, "files"),
        "condition": (4, False, "files"),
        "sure": (0, True, "log"),
        "sql": (11.0, True, "query"),
    }


def test_rows_that_are_deleted_in_place_are_not_measured(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", SCHEMA, policy={"merge_on_read": True})
        table.append(rows(range(5), amount=None) + rows(range(5, 100)))
        table.delete(where="id IN (0, 1, 99)")
        assert any(f.file.deletion_vector for f in table.files())
        found = measured(
            table,
            rows={"measure": "rows", "max": 97},
            nulls={"measure": "null_share", "column": "amount", "max": 1},
            range={"measure": "range", "column": "id", "max": 98},
        )
        assert {n: m[0] for n, m in found.items()} == {"rows": 97, "nulls": 3 / 97, "range": 0}


def test_freshness_is_that_of_changed_data(table: lw.Table) -> None:
    fresh = {"measure": "freshness", "max": "1 hour"}
    newest = {"measure": "freshness", "column": "at", "max": "30 days"}
    with time_machine.travel(NOON, tick=False) as clock:
        for n in range(3):
            table.append(rows(range(n, n + 1), at=NOON - timedelta(hours=n)))
        clock.shift(timedelta(minutes=50))
        # Each commit is a millisecond after the one before, at least.
        about = pytest.approx(3000, abs=0.01)
        assert measured(table, fresh=fresh, newest=newest) == {
            "fresh": (about, True, "log"),
            "newest": (about, True, "files"),
        }
        table.optimize()
        clock.shift(timedelta(minutes=20))
        assert measured(table, fresh=fresh)["fresh"] == (
            pytest.approx(4200, abs=0.01),
            False,
            "log",
        )


def test_drift_compares_with_the_version_measured_before(table: lw.Table) -> None:
    drift = {"measure": "drift", "column": "amount"}
    kinds = {"measure": "drift", "column": "kind"}
    table.append(rows(range(100)))
    first = table.quality(expectations={"drift": drift, "kinds": kinds})
    assert [m.passed for m in first.measurements] == [None, None]
    table.append(rows(range(100)))
    assert measured(table, drift=drift, kinds=kinds)["drift"][:2] == (0.0, True)
    table.append(rows(range(600), amount=500.0, kind="z"))
    last = measured(table, drift=drift, kinds=kinds)
    assert last["drift"][:2] == (pytest.approx(0.675), False)
    assert last["kinds"][:2] == (pytest.approx(0.75), False)


def test_conditions_are_counted_in_new_files_only(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeward.maintain import quality
    from lakeward.read import counting

    seen: list[int] = []

    def counted(*given: Any) -> tuple[int, int]:
        seen.append(len(given[-1]))
        return real(*given)

    real = counting.count_rows
    monkeypatch.setattr(quality, "count_rows", counted)
    odd = {"odd": "id % 2 = 0"}
    for n in range(3):
        table.append(rows(range(n * 10, n * 10 + 10)))
        assert measured(table, **odd)["odd"][0] == 5 * (n + 1)
    table.delete(where="id = 1")
    assert measured(table, **odd)["odd"][0] == 14
    assert seen == [1, 1, 1, 3]


def test_after_a_vacuum_no_removed_rows_are_counted(table: lw.Table) -> None:
    expected: dict[str, Any] = {
        "condition": "id < 100",
        "range": {"measure": "range", "column": "id", "max": 100},
    }
    table.append(rows(range(200, 210)))
    assert {value for value, _, _ in measured(table, **expected).values()} == {10}
    table.overwrite(rows(range(2)))
    table.append(rows(range(2, 4)))
    table.vacuum(retention=0, force=True)
    assert {value for value, _, _ in measured(table, **expected).values()} == {0}


def test_the_series_is_kept_by_version_and_read_without_measuring(table: lw.Table) -> None:
    few = {"few": {"measure": "rows", "max": 2}}
    for n in range(3):
        table.append(rows(range(n, n + 1)))
        table.quality(expectations=few)
    found = table.quality(expectations=few).series["few"]
    assert [(m.version, m.value, m.passed) for m in found] == [
        (1, 1, True),
        (2, 2, True),
        (3, 3, False),
    ]
    assert table.quality(expectations=few, version=1).measurements[0].value == 1


def test_policies_have_expectations_and_failures_are_events(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.set_policy("g.*", {"expectations": {"some": {"measure": "rows", "min": 1}}})
        empty = lake.create("g.empty", SCHEMA)
        lake.create("other", SCHEMA)
        heard: list[Any] = []
        lake.on("quality", heard.append)
        assert [(q.table, q.passed) for q in lake.quality()] == [("g.empty", False)]
        assert lake.wait_for_listeners()
        assert [(e.table, e.expectation, e.value) for e in heard] == [("g.empty", "some", 0)]
        assert empty.quality(measure=False).failed[0].wanted == "rows ≥ 1"


def test_a_policy_that_was_just_set_or_removed_counts_for_the_newest_version(
    tmp_path: Path,
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", SCHEMA)
        table.append(rows(range(2)))
        lake.set_policy("t", {"expectations": {"some": {"measure": "rows", "min": 3}}})

        assert [m.name for m in table.quality(measure=False).measurements] == []
        assert [m.value for m in table.quality().measurements] == [2]
        assert [q.table for q in lake.quality()] == ["t"]
        assert [m.name for m in table.quality(measure=False).measurements] == ["some"]
        assert table.quality(version=0).measurements == ()
        lake.set_policy("t", None)
        assert table.quality().measurements == ()
        assert lake.quality() == []


def test_what_cannot_be_measured_says_why(table: lw.Table) -> None:
    table.append(rows(range(2)))
    found = table.quality(
        expectations={
            "gone": {"measure": "distinct", "column": "nonsense", "max": 1},
            "bad": {"measure": "sql", "query": "SELECT id FROM {table}", "max": 1},
        }
    )
    assert [(m.value, m.passed) for m in found.measurements] == [(None, None), (None, None)]
    assert [m.reason for m in found.measurements] == [
        "the table has no column 'nonsense'",
        "the query returns 2 rows of 1 columns, and not one number",
    ]
    assert found.passed


@pytest.mark.parametrize(
    ("expectation", "said"),
    [
        ({"measure": "nonsense"}, "must be one of rows"),
        ({"measure": "rows"}, "has no limit"),
        ({"measure": "rows", "min": "many"}, "must be a number"),
        ({"measure": "null_share", "max": 1}, "of one column"),
        ({"measure": "duplicates"}, "unique together"),
        ({"measure": "rows", "min": 1, "maximum": 2}, "'maximum'"),
        ({"measure": "sql", "max": 1}, "query"),
        ("", "must be text"),
    ],
)
def test_an_expectation_that_is_none_is_refused(
    tmp_path: Path, expectation: Any, said: str
) -> None:
    with lw.open(tmp_path / "lake") as lake, pytest.raises(InvalidInput, match=said):
        lake.set_policy("t", {"expectations": {"x": expectation}})


def test_a_read_only_lake_is_measured_and_nothing_is_recorded(tmp_path: Path) -> None:
    few = {"few": {"measure": "rows", "max": 2}}
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", SCHEMA)
        lake.table("t").append(rows(range(1)))
    with lw.open(tmp_path / "lake", read_only=True) as lake:
        assert lake.table("t").quality(expectations=few).measurements[0].value == 1
        assert lake.table("t").quality(expectations=few).measurements[0].value == 1


def test_the_command_shows_a_verdict_and_a_plot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.set_policy("t", {"expectations": {"few": {"measure": "rows", "max": 2}}})
        table = lake.create("t", SCHEMA)
        for n in range(3):
            table.append(rows(range(n, n + 1)))
            table.quality()

    def run(*words: str) -> tuple[Any, str]:
        with pytest.raises(SystemExit) as ended:
            app(["--lake", str(tmp_path / "lake"), *words])
        return ended.value.code, capsys.readouterr().out

    code, text = run("quality")
    assert code == 12
    assert "rows ≤ 2" in text
    assert "▁▅█" in text or "▁▄█" in text
    assert "1 of 1 not met" in text
    code, text = run("--json", "quality", "t", "--recorded")
    assert code == 12
    assert json.loads(text)["tables"][0]["measurements"][0]["value"] == 3
