"""Health from the log alone, and maintenance by rules, windows and budgets."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
import time_machine

import lakeward as lw
from lakeward.errors import InvalidInput, TableNotFound
from lakeward.maintain import autopilot
from lakeward.maintain.optimize import planning
from lakeward.model.window import Window
from tests.support.s3 import on_disk


def _scattered(start: int) -> pa.Table:
    return pa.table({"a": [(start + 20 * n) * 7919 % 10_000 for n in range(500)]})


def _table(lake: lw.Lake, name: str = "t", files: int = 8, **options: Any) -> lw.Table:
    table = lake.create(name, pa.schema([("a", pa.int64())]), **options)
    for n in range(files):
        table.append(_scattered(n))
    return table


def test_health_names_small_files_and_what_mends_them(lake: lw.Lake) -> None:
    table = _table(lake)

    before = table.health()
    table.optimize()
    after = table.health()

    assert before.score < 70
    assert before.reasons[0].kind == "small_files"
    assert before.reasons[0].command == "lakeward optimize t"
    assert "8 of 8 files are small" in before.reasons[0].what
    assert before.partitions[0].small_files == 8
    assert after.score > before.score
    assert "small_files" not in [r.kind for r in after.reasons]


def test_health_of_an_empty_table_is_whole(lake: lw.Lake) -> None:
    table = lake.create("t", pa.schema([("a", pa.int64())]))
    assert (table.health().score, table.health().reasons) == (100, ())


def test_health_counts_deleted_rows_and_missing_points_by_partition(lake: lw.Lake) -> None:
    schema = pa.schema([("a", pa.int64()), ("p", pa.string())])
    policy = {"merge_on_read": True}
    properties = {"lakeward.mergeOnRead.fraction": "0.9"}
    table = lake.create("t", schema, partition_by=["p"], policy=policy, properties=properties)
    table.append(pa.table({"a": range(100), "p": ["x"] * 50 + ["y"] * 50}))
    table.delete(where="a < 20")

    health = table.health()

    assert health.reasons[0].kind == "deleted_rows"
    assert {p.partition: p.deleted_rows for p in health.partitions} == {"p=x": 20, "p=y": 0}
    table.optimize(purge=True)
    assert "deleted_rows" not in [r.kind for r in table.health().reasons]


def test_health_tells_when_clustering_decays(lake: lw.Lake) -> None:
    table = _table(lake, properties={"delta.targetFileSize": "2kb"})
    table.optimize(sort="a")
    assert "clustering" not in [r.kind for r in table.health().reasons]
    assert (table.health().partitions[0].overlap or 0.0) < 0.2

    for n in range(8):
        table.append(_scattered(100 + n))

    decayed = [r for r in table.health().reasons if r.kind == "clustering"]
    assert decayed
    assert decayed[0].command == "lakeward optimize t --sort a"


def test_maintain_does_what_is_worth_most_and_then_nothing(lake: lw.Lake) -> None:
    _table(lake, "bad", 12)
    _table(lake, "fair", 2)
    _table(lake, "good", 1)

    planned = lake.maintain(dry_run=True)
    done = lake.maintain()

    assert planned.state == "planned"
    assert [d.chore.table for d in done.done] == ["bad", "fair"]
    assert done.state == "done"
    assert lake.maintain().state == "nothing"
    assert {j.table for j in lake.jobs(kind="optimize")} == {"bad", "fair"}
    assert {j.table for j in lake.jobs(kind="vacuum")} == {"bad", "fair"}


def test_maintain_vacuums_dropped_tables_and_expires_long_logs(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autopilot, "_MANY_VERSIONS", 3)
    long_ago = datetime.now(UTC) - timedelta(days=100)
    with time_machine.travel(long_ago):
        place = on_disk(_table(lake, "gone", 1).location)
        lake.drop("gone")
    for path in place.rglob("*"):
        os.utime(path, (long_ago.timestamp(), long_ago.timestamp()))
    _table(lake, "long", 4)

    planned = {(d.chore.table, d.chore.kind) for d in lake.maintain(dry_run=True).done}
    done = {(d.chore.table, d.chore.kind) for d in lake.maintain().done}

    assert planned == done
    assert {(autopilot.DROPPED, "vacuum"), ("long", "expire")} <= done
    assert not list(place.rglob("*.parquet"))
    assert lake.maintain().state == "nothing"
    with pytest.raises(TableNotFound):
        lake.undrop("gone")


def test_maintain_clusters_by_the_table_property_once_a_day(lake: lw.Lake) -> None:
    table = _table(lake, "t", 3, properties={"lakeward.zorder": "a"})

    lake.maintain()
    (newest,) = table.history(limit=1)
    table.append(_scattered(900))

    assert newest.parameters["zOrderBy"] == '["a"]'
    today = lake.maintain(dry_run=True).done[0]
    tomorrow = lake.maintain(zorder_every="0s").done[0]
    assert today.chore.options == {}
    assert tomorrow.chore.options == {"zorder": ["a"]}


def test_a_clustering_column_that_came_back_nested_is_not_clustered_by(lake: lw.Lake) -> None:
    table = lake.create("t", "id int64, x int64")
    for n in range(4):
        table.append([{"id": n, "x": n}])
    table.optimize(zorder=["x"])
    with lake.transaction() as tx:
        tx.alter("t").drop_column("x").add_column("x", "struct<a: int64>")
    for n in range(60):
        table.append([{"id": n, "x": {"a": 1}}])

    run = lake.maintain(zorder_every="0s")

    assert (run.state, run.failed) == ("done", ())
    assert len(table.files()) == 1


def test_maintain_stops_when_the_budget_is_spent_and_goes_on(lake: lw.Lake) -> None:
    _table(lake, "one", 6)
    _table(lake, "two", 5)

    first = lake.maintain(budget="0s")
    second = lake.maintain(budget="0s")

    left = [c.table for c in first.left if c.kind == "optimize"]
    assert (first.state, left) == ("stopped", ["two"])
    assert [d.chore.table for d in second.done if d.chore.kind == "optimize"] == ["two"]
    assert lake.maintain().state == "nothing"


def test_two_at_once_share_the_work(lake: lw.Lake) -> None:
    for n in range(6):
        _table(lake, f"t{n}", 4)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            lake.maintain()
        except BaseException as error:  # noqa: BLE001  shown by the test
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not errors
    for n in range(6):
        optimized = [v for v in lake.table(f"t{n}").history() if v.operation == "OPTIMIZE"]
        assert len(optimized) == 1
        assert len(lake.table(f"t{n}").files()) == 1


@pytest.mark.parametrize(
    ("text", "moment", "closes", "opens"),
    [
        ("02:00-05:00 Europe/Lisbon", "2026-07-01T01:30", "2026-07-01T04:00", None),
        ("02:00-05:00 Europe/Lisbon", "2026-01-01T01:30", None, "2026-01-01T02:00"),
        ("22:00-04:00", "2026-01-01T23:00", "2026-01-02T04:00", None),
        ("22:00-04:00", "2026-01-02T03:59", "2026-01-02T04:00", None),
        ("Sun 00:00-24:00", "2026-11-22T23:59", "2026-11-23T00:00", None),
        ("Sat,Sun 00:00-24:00", "2026-11-21T00:00", "2026-11-23T00:00", None),
        ("Sat,Sun 0:00-24:00", "2026-11-20T23:59", None, "2026-11-21T00:00"),
        ("22:00-04:00", "2026-01-02T04:00", None, "2026-01-02T22:00"),
        ("Sat,Sun 10:00-12:00", "2026-11-17T11:00", None, "2026-11-21T10:00"),
        ("Sun 02:30-03:15 Europe/Berlin", "2027-03-21T12:00", None, "2027-04-04T00:30"),
        ("saturday 10:00-12:00", "2026-11-21T11:00", "2026-11-21T12:00", None),
    ],
)
def test_windows_open_and_close(
    text: str, moment: str, closes: str | None, opens: str | None
) -> None:
    window = Window.parse(text)
    now = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    found = window.closes_after(now)
    assert (None if found is None else found.isoformat()[:16]) == closes
    if opens is not None:
        assert window.opens_after(now).isoformat()[:16] == opens


@pytest.mark.parametrize(
    "given",
    [
        {"window": "05:00-05:00"},
        {"window": "00:00-00:00"},
        {"window": "24:00-24:00"},
        {"window": "25:00-26:00"},
        {"window": "at night"},
        {"window": "02:00-05:00 Europe/Nowhere"},
        {"window": "Someday 02:00-05:00"},
        {"budget": "soon"},
        {"zorder_every": "x"},
        {"tables": "t"},
    ],
    ids=str,
)
def test_bad_input_is_refused_before_anything_is_done(lake: lw.Lake, given: dict[str, Any]) -> None:
    table = _table(lake, files=3)
    with pytest.raises(InvalidInput):
        lake.maintain(**given)
    assert table.version == 3
    assert lake.jobs() == []


def test_a_budget_shorter_than_one_unit_is_refused(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_BYTES_PER_SECOND", 1)
    table = _table(lake, files=3)
    with pytest.raises(InvalidInput, match="shorter than the smallest unit"):
        table.optimize(budget="2s")
    assert table.version == 3
    assert lake.jobs() == []


def test_maintain_stops_when_the_next_unit_does_not_fit(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    _table(lake, "one", 4)
    _table(lake, "two", 8)
    check = planning.check_budget
    late = [True]

    def checked(plan: Any, seconds: float | None) -> None:
        if plan.table == "two" and late:
            # As if 2 s were left, and a byte took a second.
            with monkeypatch.context() as slow:
                slow.setattr(planning, "_BYTES_PER_SECOND", 1)
                check(plan, 2.0)
        check(plan, seconds)

    monkeypatch.setattr(planning, "check_budget", checked)
    with pytest.raises(InvalidInput, match="shorter than the smallest unit"):
        lake.maintain(tables=["two"])
    stopped = lake.maintain()
    late.clear()

    assert (stopped.state, [c.table for c in stopped.left]) == ("stopped", ["two"])
    assert [d.chore.table for d in stopped.done] == ["one"]
    assert ("two", "optimize") in [(d.chore.table, d.chore.kind) for d in lake.maintain().done]


def test_a_damaged_table_does_not_keep_others_from_maintenance(lake: lw.Lake) -> None:
    bad, fair = _table(lake, "bad", 12), _table(lake, "fair", 6)
    (on_disk(bad.location) / bad.files()[0].path).unlink()

    run = lake.maintain()

    assert run.state == "failed"
    assert [(f.chore.table, f.exit_code) for f in run.failed] == [("bad", 8)]
    assert "cannot be" in run.failed[0].error or "missing" in run.failed[0].error
    assert [d.chore.table for d in run.done] == ["fair"]
    assert len(fair.files()) == 1
    assert len(bad.files()) == 12


def test_a_table_with_few_removed_files_is_vacuumed_once_it_is_old_enough(lake: lw.Lake) -> None:
    table = lake.create("t", {"a": "int64"})
    table.append(pa.table({"a": [n * n * 7919 % 1_000_003 for n in range(20_000)]}))
    table.append([{"a": -1}])
    table.delete(where="a = -1")

    assert "vacuum" not in [d.chore.kind for d in lake.maintain(dry_run=True).done]
    done = lake.maintain(vacuum_every="0s", dry_run=True).done
    assert "vacuum" in [d.chore.kind for d in done]


def test_the_layout_is_known_after_many_compactions(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeward.log import commits

    monkeypatch.setattr(commits, "_PAGE", 2)
    table = _table(lake, "t", 3)
    table.optimize(zorder=["a"])
    for n in range(3):
        table.append(_scattered(n))
        table.append(_scattered(n))
        table.optimize(target_size="1gb")

    done = lake.maintain(zorder_every="0s", dry_run=True).done
    assert {"zorder": ["a"]} in [d.chore.options for d in done]
    later = lake.maintain(zorder_every="1d", dry_run=True).done
    assert {"zorder": ["a"]} not in [d.chore.options for d in later]


def test_nothing_is_done_while_the_window_is_closed(lake: lw.Lake) -> None:
    table = _table(lake, files=3)
    hour = (datetime.now(UTC).hour + 12) % 24
    done = lake.maintain(window=f"{hour:02d}:00-{hour:02d}:01")
    assert done.state == "closed"
    assert done.opens is not None
    assert table.version == 3


@pytest.mark.parametrize(
    ("terms", "advice"),
    [(["day"], "partition by month(day) instead of day"), (["hour(at)"], "partition by day(at)")],
)
def test_health_advises_on_partitions_that_are_too_many(
    lake: lw.Lake, terms: list[str], advice: str
) -> None:
    table = lake.create("t", "day date, at timestamp, n int64", partition_by=terms)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    moments = [begin + timedelta(days=n, hours=n) for n in range(30)]
    table.append([{"day": m.date(), "at": m, "n": 1} for m in moments])

    (found,) = (r for r in table.health().reasons if r.kind == "partitions")

    assert advice in found.what


def test_a_vacuum_of_the_whole_lake_counts_for_each_table(lake: lw.Lake) -> None:
    table = _table(lake, "t", 2)
    table.overwrite(_scattered(0))
    assert {d.chore.kind for d in lake.maintain(dry_run=True).done} == {"vacuum"}

    lake.vacuum()

    assert lake.maintain(dry_run=True).state == "nothing"
    assert not lake.maintain(dry_run=True).done
