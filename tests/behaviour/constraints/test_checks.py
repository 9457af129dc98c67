"""Checks: rows that break one are named, counted and shown, and nothing is committed."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator

import orjson
import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation, InvalidExpression, InvalidName
from tests.behaviour.lakes import append, ids, log_files, overwrite, unchanged
from tests.behaviour.published import document

pytestmark = pytest.mark.before_the_store


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    return shared_lake.create(
        name,
        {"id": "int64", "amount": "double", "kind": "string"},
        constraints={"positive": "amount > 0", "known": "kind IN ('a', 'b') OR kind IS NULL"},
    )


def test_rows_that_satisfy_all_checks_pass(shared_lake: lw.Lake, table: lw.Table) -> None:
    append(shared_lake, table.name, {"id": [1, 2], "amount": [0.5, 9.0], "kind": ["a", None]})

    assert ids(shared_lake, table.name) == [1, 2]


def test_a_violation_is_named_counted_and_shown(shared_lake: lw.Lake, table: lw.Table) -> None:
    amounts = [1.0] * 10 + [-1.0] * 7
    rows = {"id": range(17), "amount": amounts, "kind": ["a"] * 17}

    with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
        append(shared_lake, table.name, rows)

    error = caught.value
    assert (error.table, error.constraint, error.count) == (table.name, "positive", 7)
    assert error.expression == "amount > 0"
    assert error.sample == [{"id": n, "amount": -1.0, "kind": "a"} for n in range(10, 15)]
    assert table.name in str(error)
    assert "7 rows" in str(error)
    assert pickle.loads(pickle.dumps(error)).sample == error.sample


def test_every_violated_check_is_counted(shared_lake: lw.Lake, table: lw.Table) -> None:
    with pytest.raises(ConstraintViolation) as caught:
        append(
            shared_lake,
            table.name,
            {"id": [1, 2, 3], "amount": [-1.0, 1.0, 1.0], "kind": ["x", "x", "a"]},
        )

    assert caught.value.counts == {"positive": 1, "known": 2}
    assert caught.value.constraint == "known"


@pytest.mark.parametrize("amount", [None, 0.0, -0.0])
def test_what_is_not_true_violates(
    shared_lake: lw.Lake, table: lw.Table, amount: float | None
) -> None:
    with unchanged(shared_lake), pytest.raises(ConstraintViolation):
        append(shared_lake, table.name, [{"id": 1, "amount": amount, "kind": "a"}])


def test_nan_is_above_all_numbers(shared_lake: lw.Lake, table: lw.Table) -> None:
    append(shared_lake, table.name, [{"id": 1, "amount": math.nan, "kind": "a"}])

    assert ids(shared_lake, table.name, where="amount > 1e308") == [1]


def test_rows_of_all_batches_are_counted_before_anything_fails(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"}, constraints={"small": "id < 250"})

    def batches() -> Iterator[pa.Table]:
        for start in range(0, 400, 100):
            yield pa.table({"id": list(range(start, start + 100))})

    with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
        append(shared_lake, name, batches())

    assert caught.value.count == 150
    assert [row["id"] for row in caught.value.sample] == [250, 251, 252, 253, 254]


def test_overwrites_are_checked_too(shared_lake: lw.Lake, table: lw.Table) -> None:
    append(shared_lake, table.name, {"id": [1], "amount": [1.0], "kind": ["a"]})

    with unchanged(shared_lake), pytest.raises(ConstraintViolation):
        overwrite(shared_lake, table.name, {"id": [2], "amount": [-1.0], "kind": ["a"]})


def test_rows_that_stay_when_others_go_are_not_checked_again(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    append(shared_lake, table.name, {"id": [1, 2], "amount": [1.0, 2.0], "kind": ["a", "b"]})
    with shared_lake.transaction() as tx:
        tx.delete(table.name, where="id = 1")

    assert ids(shared_lake, table.name) == [2]


def test_checks_see_nested_and_partition_columns(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(
        name,
        {"id": "int64", "p": "string", "s": pa.struct([("a", pa.int64())])},
        partition_by=["p"],
        constraints={"p_known": "p <> 'bad'", "inner": "s.a >= 0"},
    )
    append(shared_lake, name, [{"id": 1, "p": "good", "s": {"a": 0}}])

    with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
        append(shared_lake, name, [{"id": 1, "p": "bad", "s": {"a": 0}}])
    assert caught.value.constraint == "p_known"
    with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
        append(shared_lake, name, [{"id": 1, "p": "good", "s": {"a": -1}}])
    assert caught.value.constraint == "inner"


@pytest.mark.formats("delta")
def test_checks_are_published_for_others_to_keep(shared_lake: lw.Lake, table: lw.Table) -> None:
    lines = map(orjson.loads, log_files(shared_lake, table.name)[0].read_bytes().splitlines())
    actions = {k: v for line in lines for k, v in line.items()}

    assert actions["metaData"]["configuration"]["delta.constraints.positive"] == "amount > 0"
    assert "checkConstraints" in actions["protocol"]["writerFeatures"]


@pytest.mark.formats("iceberg")
def test_checks_are_published_as_properties_where_the_format_has_none(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    properties = document(shared_lake, table.name)["properties"]

    assert properties["lakeward.constraint.positive"] == "amount > 0"


@pytest.mark.parametrize(
    "expression",
    ["", "amount", "amount >", "nope > 1", "amount > 'x'", "amount > (SELECT 1)", "1;2"],
)
def test_a_check_that_makes_no_sense_makes_no_table(
    shared_lake: lw.Lake, name: str, expression: str
) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidExpression) as caught:
        shared_lake.create(name, {"amount": "double"}, constraints={"c": expression})
    assert caught.value.expression == expression


@pytest.mark.parametrize("check", ["", "a b", "a.b", "a'b", "ä", "a-b", "a;b"])
def test_a_check_needs_a_plain_name(shared_lake: lw.Lake, name: str, check: str) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidName):
        shared_lake.create(name, {"amount": "double"}, constraints={check: "amount > 0"})


def test_two_checks_of_the_same_name_but_for_case_are_refused(
    shared_lake: lw.Lake, name: str
) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidName):
        shared_lake.create(name, {"a": "double"}, constraints={"Small": "a < 1", "small": "a < 2"})
