"""Pipelines as they are declared: order, sources, and what makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.errors import InvalidExpression, InvalidInput, InvalidName
from lakeward.pipeline import Landing, New, Pipeline, Whole, landing, new, whole

SCHEMA = "id int64"


def declared(**options: Any) -> Pipeline:
    pipeline = Pipeline("p")

    @pipeline.step("a", schema=SCHEMA, **options)
    def a(batch: Any = landing("in")) -> Any:
        return batch

    return pipeline


def test_steps_run_after_what_they_read() -> None:
    pipeline = Pipeline("shop")

    @pipeline.step("gold", schema=SCHEMA)
    def gold(rows: Any = new("silver"), all_of_it: Any = whole("bronze")) -> Any:
        return rows

    @pipeline.step("silver", schema=SCHEMA)
    def silver(rows: Any = new("bronze")) -> Any:
        return rows

    @pipeline.step("bronze", schema=SCHEMA)
    def bronze(batch: Any = landing("in")) -> Any:
        return batch

    assert [str(s.target) for s in pipeline.steps()] == ["bronze", "silver", "gold"]
    assert pipeline.steps()[2].inputs == {
        "rows": New(pipeline.steps()[1].target),
        "all_of_it": Whole(pipeline.steps()[0].target),
    }


def test_tables_of_others_may_be_read() -> None:
    pipeline = Pipeline("p")

    @pipeline.step("mine", schema=SCHEMA)
    def mine(rows: Any = new("theirs")) -> Any:
        return rows

    assert [str(s.target) for s in pipeline.steps()] == ["mine"]


def test_the_function_stays_what_it_is() -> None:
    pipeline = Pipeline("p")

    def twice(batch: Any = landing("in")) -> Any:
        return batch * 2

    assert pipeline.step("t", schema=SCHEMA)(twice)(2) == 4


def test_steps_that_wait_for_each_other_are_refused() -> None:
    pipeline = Pipeline("p")

    @pipeline.step("a", schema=SCHEMA)
    def a(rows: Any = new("b")) -> Any:
        return rows

    @pipeline.step("b", schema=SCHEMA)
    def b(rows: Any = new("a")) -> Any:
        return rows

    with pytest.raises(InvalidInput, match="wait for each other"):
        pipeline.steps()


def test_a_step_that_reads_what_it_writes_is_refused() -> None:
    pipeline = Pipeline("p")

    @pipeline.step("a", schema=SCHEMA)
    def a(batch: Any = landing("in"), before: Any = whole("a")) -> Any:
        return batch

    with pytest.raises(InvalidInput, match="reads the table that it writes"):
        pipeline.steps()


def test_a_pipeline_without_steps_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no steps"):
        Pipeline("p").steps()


def test_two_steps_for_one_table_are_refused() -> None:
    pipeline = declared()
    with pytest.raises(InvalidInput, match="Two steps"):
        pipeline.step("a", schema=SCHEMA)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mode": "merge"}, "no key"),
        ({"key": "id"}, "does not merge"),
        ({"latest": "id"}, "does not merge"),
        ({"delete": "gone"}, "does not merge"),
        ({"mode": "upsert"}, "mode"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        declared(**options)


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidName):
        Pipeline("p").step("a/../b", schema=SCHEMA)


def test_a_parameter_without_a_source_is_refused() -> None:
    pipeline = Pipeline("p")
    with pytest.raises(InvalidInput, match="does not say where it comes from"):

        @pipeline.step("a", schema=SCHEMA)
        def a(batch: Any) -> Any:
            return batch


def test_a_step_without_a_source_is_refused() -> None:
    pipeline = Pipeline("p")
    with pytest.raises(InvalidInput, match="would never run"):

        @pipeline.step("a", schema=SCHEMA)
        def a() -> Any:
            return None


def test_whole_tables_make_a_step_run_where_it_has_no_other_source() -> None:
    pipeline = Pipeline("p")

    @pipeline.step("a", schema=SCHEMA)
    def a(rows: Any = whole("c"), others: Any = whole("d")) -> Any:
        return rows

    @pipeline.step("b", schema=SCHEMA)
    def b(rows: Any = whole("c"), fresh: Any = new("d")) -> Any:
        return rows

    watched = {str(s.target): s.watches for s in pipeline.steps()}
    assert watched == {"a": {"rows", "others"}, "b": {"fresh"}}


@pytest.mark.parametrize("kind", ["expect", "drop", "warn"])
@pytest.mark.parametrize("text", ["id >", "DROP TABLE a", "id > 0; DROP TABLE a", ""])
def test_conditions_that_are_none_are_refused(kind: str, text: str) -> None:
    with pytest.raises(InvalidExpression):
        declared(**{kind: {"sound": text}})


def test_how_far_a_step_got_is_known_by_its_table_and_source() -> None:
    (step,) = declared().steps()
    assert step.inputs == {"batch": Landing("in")}
    assert step.source_name("batch") == "a <- in"


def test_no_module_hides_a_function_of_the_same_name() -> None:
    import lakeward.pipeline.run  # noqa: F401  as a run does
    from lakeward import pipeline as package

    for name in ("landing", "new", "whole"):
        assert callable(getattr(package, name)), name
