"""Runs of maintenance: unit by unit, within a budget, recorded whatever becomes of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

import lakeward as lw
from lakeward.context import context_of
from lakeward.errors import InvalidInput
from lakeward.log import jobs as rows
from lakeward.maintain.jobs import Budget, run
from lakeward.model.duration import for_people, to_milliseconds
from lakeward.model.maintenance import Done, JobState, Plan, Unit

PLAN = Plan("vacuum", "t", tuple(Unit("t", f"unit {n}", "test", work=n) for n in range(3)))


def test_a_run_does_all_units_and_is_recorded_with_what_they_did(lake: lw.Lake) -> None:
    seen: list[int] = []
    done = Done(reads=1, writes=2, frees=10, files=1, facts={"rows": 5})

    def execute(unit: Unit) -> Done:
        seen.append(unit.work)
        return done

    record = run(context_of(lake), PLAN, execute)

    assert seen == [0, 1, 2]
    assert record.state is JobState.DONE
    assert (record.units, record.units_done) == (3, 3)
    assert record.done == Done(3, 6, 30, 3, {"rows": 15})
    (listed,) = lake.jobs()
    assert (listed.job, listed.state, listed.done) == (record.job, JobState.DONE, record.done)
    assert lake.jobs(kind="optimize") == []
    assert lake.jobs(table="other") == []


def test_a_spent_budget_stops_between_units_and_the_first_is_always_done(lake: lw.Lake) -> None:
    record = run(context_of(lake), PLAN, lambda _: Done(files=1), budget=Budget.of("0s"))

    assert record.state is JobState.STOPPED
    assert (record.units_done, record.done.files) == (1, 1)


def test_a_run_that_fails_is_recorded_and_raises(lake: lw.Lake) -> None:
    def execute(unit: Unit) -> Done:
        if unit.work == 1:
            message = "no more"
            raise InvalidInput(message)
        return Done(files=1)

    with pytest.raises(InvalidInput):
        run(context_of(lake), PLAN, execute)

    (record,) = lake.jobs()
    assert record.state is JobState.FAILED
    assert record.units_done == 1
    assert record.error == "InvalidInput: no more"


def test_an_empty_plan_is_recorded_as_nothing_to_do(lake: lw.Lake) -> None:
    record = run(context_of(lake), Plan("vacuum", "t"), lambda _: Done())

    assert record.state is JobState.NOTHING


def test_a_run_whose_process_died_is_shown_as_interrupted(lake: lw.Lake) -> None:
    context = context_of(lake)
    with context.database.write() as session:
        now = context.database.clock_ms(session)
        row = rows.Job(
            "x", "vacuum", None, "running", "a", "h:1", now - 9, None, now - 1, 2, 1, Done(), None
        )
        rows.insert(session, row)

    (record,) = lake.jobs()

    assert record.state is JobState.INTERRUPTED


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("90d", 90 * 86_400_000),
        ("1h30m", 5_400_000),
        ("1 hour 30 min", 5_400_000),
        ("0s", 0),
        ("0", 0),
        ("500ms", 500),
        ("2w", 14 * 86_400_000),
        (timedelta(hours=1), 3_600_000),
        (2.5, 2_500),
    ],
)
def test_lengths_of_time_are_understood(text: object, milliseconds: int) -> None:
    assert to_milliseconds(text, "retention") == milliseconds


@pytest.mark.parametrize(
    "wrong", ["", "90", "d", "-1d", "1d x", "1.2.3h", -1, True, None, "1y", []]
)
def test_what_is_no_length_of_time_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="retention"):
        to_milliseconds(wrong, "retention")


def test_lengths_of_time_are_shown_in_their_largest_units() -> None:
    assert [for_people(n) for n in (0, 90 * 86_400_000, 5_400_000, 7)] == [
        "0s",
        "90d",
        "1h30m",
        "7ms",
    ]
