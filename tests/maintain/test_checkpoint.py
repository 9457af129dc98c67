"""Checkpoints by call: of one table or of all, within a budget."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput
from tests.support.s3 import on_disk


def checkpoints(table: lw.Table) -> list[int]:
    """The versions of a table that have a checkpoint."""
    log = on_disk(table.location) / "_delta_log"
    return sorted(int(p.name.partition(".")[0]) for p in log.glob("*.checkpoint*.parquet"))


@pytest.fixture
def tables(lake: lw.Lake) -> list[lw.Table]:
    """Tables with one, two and three commits, in a lake that has an Iceberg table as well."""
    lake.create("strange", "n int64", format="iceberg")
    made = [lake.create(f"t{n}", "n int64", format="delta") for n in range(3)]
    for number, table in enumerate(made):
        for n in range(number):
            table.append([{"n": n}])
    return made


def test_the_table_with_the_most_commits_gets_its_checkpoint_first(
    lake: lw.Lake, tables: list[lw.Table]
) -> None:
    seen: list[tuple[int, int | None]] = []

    planned = lake.checkpoint(dry_run=True)

    assert [u.table for u in planned.plan.units] == ["t2", "t1", "t0"]
    assert planned.plan.units[0].gain == "other engines read 3 commits fewer"
    assert [checkpoints(t) for t in tables] == [[], [], []]
    done = lake.checkpoint(progress=lambda n, of: seen.append((n, of)))
    assert done.state == "done"
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert [checkpoints(t) for t in tables] == [[0], [1], [2]]


def test_runs_that_the_budget_stops_get_to_all_tables(
    lake: lw.Lake, tables: list[lw.Table]
) -> None:
    states = [lake.checkpoint(budget="0s").state for _ in range(4)]

    assert states == ["stopped", "stopped", "done", "nothing"]
    assert [checkpoints(t) for t in tables] == [[0], [1], [2]]
    tables[1].append([{"n": 7}])
    assert [u.table for u in lake.checkpoint().plan.units] == ["t1"]
    assert [j.state for j in lake.jobs(kind="checkpoint")][-1] == "stopped"


def test_named_tables_that_have_a_checkpoint_get_it_again(
    lake: lw.Lake, tables: list[lw.Table]
) -> None:
    tables[2].checkpoint()

    assert lake.checkpoint(tables=["t2", "strange"]).state == "done"
    assert tables[2].checkpoint(budget="30m").state == "done"
    assert lake.table("strange").checkpoint(budget="0s").state == "nothing"


def test_an_invalid_budget_is_refused_and_nothing_is_written(
    lake: lw.Lake, tables: list[lw.Table]
) -> None:
    for budget in ("soon", -1, "-5m"):
        with pytest.raises(InvalidInput):
            lake.checkpoint(budget=budget)
        with pytest.raises(InvalidInput):
            tables[1].checkpoint(budget=budget)
    assert [checkpoints(t) for t in tables] == [[], [], []]


def test_a_lake_that_is_read_only_plans_checkpoints_and_writes_none(
    lake: lw.Lake, tables: list[lw.Table], make_lake: Callable[..., lw.Lake]
) -> None:
    reader = make_lake(read_only=True)
    assert [u.table for u in reader.checkpoint(dry_run=True).plan.units] == ["t2", "t1", "t0"]
    assert reader.table("t1").checkpoint(dry_run=True).state == "planned"
    with pytest.raises(lw.errors.ReadOnlyLake):
        reader.checkpoint()
    assert [checkpoints(t) for t in tables] == [[], [], []]
