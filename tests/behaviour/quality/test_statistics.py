"""Statistics of versions: what the rows are, added up file by file, and estimates by sketches."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeward as lw
from lakeward.cli.main import app
from lakeward.errors import InvalidInput
from lakeward.log import files, statistics
from lakeward.log.binding import put_setting
from tests.support.inside import context_of

SCHEMA = {"id": "int64", "name": "string", "price": "decimal(9,2)", "day": "date"}


@pytest.fixture(params=["delta", "iceberg"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[lw.Table]:
    with lw.open(tmp_path / "lake") as lake:
        yield lake.create("t", SCHEMA, format=request.param, partition_by=["day"])


def data(rng: random.Random, count: int) -> pa.Table:
    from datetime import date
    from decimal import Decimal

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.1 else value

    return pa.table(
        {
            "id": [maybe(rng.randrange(1000)) for _ in range(count)],
            "name": [maybe(rng.choice(["", *(f"n{n}" for n in range(40))])) for _ in range(count)],
            "price": pa.array(
                [maybe(Decimal(rng.randrange(-5000, 90000)) / 100) for _ in range(count)],
                pa.decimal128(9, 2),
            ),
            "day": [date(2026, 1, rng.randrange(1, 4)) for _ in range(count)],
        }
    )


def agrees(table: lw.Table, version: int | None = None) -> bool:
    """Whether the statistics of a version are those of its rows."""
    found, rows = table.statistics(version=version), table.at(version=version).to_arrow()
    assert (found.rows, found.files) == (rows.num_rows, len(table.at(version=version).files()))
    for name in rows.column_names:
        low, high = pc.min_max(rows[name]).as_py().values()
        own = found.columns[name]
        assert own.exact
        assert (own.nulls, own.minimum, own.maximum) == (rows[name].null_count, low, high), name
    return True


def test_statistics_are_those_of_the_rows_at_every_version(table: lw.Table) -> None:
    rng = random.Random(1)
    assert table.statistics().rows == 0
    for count in (30, 1, 50):
        table.append(data(rng, count))
        assert agrees(table)
    table.overwrite(data(rng, 10))
    table.append(data(rng, 10))
    assert agrees(table)
    assert all(agrees(table, version) for version in range(1, 6))


def test_rows_deleted_in_place_make_bounds_inexact_and_nulls_unknown(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", {"id": "int64"}, policy={"merge_on_read": True})
        table.append([{"id": n} for n in range(100)])
        table.delete(where="id = 99")
        found = table.statistics()
        assert found.rows == 99
        own = found.columns["id"]
        assert (own.nulls, own.minimum, own.maximum, own.exact) == (None, 0, 99, False)


def test_only_new_files_are_added_to_what_is_kept(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = files.at

    def counted(*given: Any, after: int = -1) -> Any:
        asked.append(after)
        return real(*given, after=after)

    rng = random.Random(2)
    for _ in range(3):
        table.append(data(rng, 5))
    table.statistics()
    table.append(data(rng, 5))
    monkeypatch.setattr(files, "at", counted)
    table.statistics()
    table.statistics()
    assert asked == [3]


def test_many_files_leave_results_at_versions_between(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeward.maintain.statistics._EVERY", 3)
    rng = random.Random(6)
    for _ in range(4):
        table.append(data(rng, 2))
    table.delete(where="id < 300")
    for _ in range(7):
        table.append(data(rng, 2))
    table.alter().drop_column("name").commit()
    after = table.version
    for _ in range(8):
        table.append(data(rng, 2).drop_columns("name"))
    assert agrees(table)
    real, asked = files.at, list[int]()

    def counted(*given: Any, after: int = -1) -> Any:
        found = list(real(*given, after=after))
        asked.append(len({file.added for file in found}))
        return iter(found)

    monkeypatch.setattr(files, "at", counted)
    for version in range(table.version, -1, -1):
        found = table.statistics(version=version)
        if version > after + 3:
            assert sum(asked) <= 2
        asked.clear()
        monkeypatch.setattr(files, "at", real)
        rows = table.at(version=version).to_arrow()
        assert (found.rows, found.columns["id"].nulls) == (rows.num_rows, rows["id"].null_count)
        assert version == 0 or agrees(table, version)
        monkeypatch.setattr(files, "at", counted)


def test_distinct_values_are_estimated_and_merged_over_versions(table: lw.Table) -> None:
    rng = random.Random(3)
    for _ in range(3):
        table.append(data(rng, 400))
        found = table.statistics(distinct=["id", "name", "price", "day"])
        rows = table.to_arrow()
        for name in rows.column_names:
            real = pc.count_distinct(rows[name]).as_py()
            own = found.columns[name]
            assert own.distinct is not None
            assert abs(own.distinct - real) <= 0.03 * real + 1, name
            assert own.distinct_low is not None
            assert own.distinct_high is not None
            assert own.distinct_low <= own.distinct <= own.distinct_high
    table.delete(where="name = 'n1'")
    assert table.statistics(distinct=["name"]).columns["name"].distinct == 40


def test_distinct_values_are_counted_anew_after_a_change_of_type(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", {"id": "int32"})
        table.append([{"id": n} for n in range(100)])
        assert table.statistics(distinct=["id"]).columns["id"].distinct == 100
        table.alter().change_type("id", "double").commit()
        table.append([{"id": float(n)} for n in range(100)])
        assert table.statistics(distinct=["id"]).columns["id"].distinct == 100


def test_growth_is_the_size_after_each_version(table: lw.Table) -> None:
    rng = random.Random(4)
    for count in (5, 7):
        table.append(data(rng, count))
    table.overwrite(data(rng, 3))
    sizes = table.growth()
    assert [(g.version, g.rows) for g in sizes] == [(0, 0), (1, 5), (2, 12), (3, 3)]
    assert sizes[-1].files == len(table.files())
    assert sizes[-1].bytes == sum(f.size for f in table.files())
    assert [(g.version, g.rows) for g in table.growth(limit=2)] == [(2, 12), (3, 3)]


def test_after_a_vacuum_no_removed_rows_are_counted(table: lw.Table) -> None:
    rng = random.Random(17)
    table.append(data(rng, 50))
    assert agrees(table)
    before = table.statistics(distinct=["id"]).columns["id"].distinct
    table.overwrite(data(rng, 5))
    table.append(data(rng, 5))
    table.vacuum(retention=0, force=True)
    assert agrees(table)
    found = table.statistics(distinct=["id"]).columns["id"].distinct
    assert before is not None
    assert found is not None
    assert found <= 10 < before


def test_statistics_that_an_older_lakeward_stored_are_computed_again(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", SCHEMA)
        table.append(data(random.Random(3), 5))
        with context_of(lake).database.write() as session:
            own = table.at().log_head.table_id
            statistics.put(session, own, 1, {"rows": 99, "files": 9, "bytes": 9, "columns": {}})
            put_setting(session, "schema_version", "30")
    with lw.open(tmp_path / "lake") as lake:
        assert agrees(lake.table("t"))


def test_what_cannot_be_counted_is_refused(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", "id int64, list list<int64>")
        with pytest.raises(InvalidInput, match="no column"):
            table.statistics(distinct=["nonsense"])
        with pytest.raises(InvalidInput, match="no single values"):
            table.statistics(distinct=["list"])


def test_the_command_shows_columns_and_growth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", {"id": "int64"}).append([{"id": 4}, {"id": 7}])
    for words, shown in ((["--distinct", "id"], "2 (2–3)"), (["--growth", "5"], "WRITE")):
        with pytest.raises(SystemExit) as ended:
            app(["--lake", str(tmp_path / "lake"), "statistics", "t", *words])
        assert ended.value.code in (0, None)
        assert shown in capsys.readouterr().out


@pytest.mark.full
def test_any_of_ten_thousand_versions_takes_less_than_ten_milliseconds(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", {"id": "int64", "name": "string"})
        for number in range(10_000):
            table.append(pa.table({"id": [number], "name": [f"n{number}"]}))
        times = dict[int, float]()
        for version in (10_000, *range(37, 10_000, 311)):
            began = time.perf_counter()
            assert table.statistics(version=version).rows == version
            times[version] = (time.perf_counter() - began) * 1_000
    first, *others = times.values()
    print(f"first {first:.1f} ms, then {median(others):.2f} ms, at most {max(others):.2f} ms")
    assert median(others) < 10


@pytest.mark.full
def test_ten_million_values_are_counted_within_three_percent(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", {"id": "int64"})
        for part in range(10):
            low = part * 700_000
            table.append(pa.table({"id": pa.array(range(low, low + 1_000_000), pa.int64())}))
            count = table.statistics(distinct=["id"]).columns["id"].distinct
            real = low + 1_000_000
            assert count is not None
            print(f"{count} of {real} estimated: {abs(count - real) / real:.2%} off")
            assert abs(count - real) <= 0.03 * real
