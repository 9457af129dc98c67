"""Conditions and checks that make sense and still cannot be computed for some row."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.errors import InvalidExpression
from tests.behaviour.lakes import append

pytestmark = pytest.mark.before_the_store

FAILING = ["CAST(text AS INT) > 0", "number + 9223372036854775807 > 0"]


@pytest.mark.parametrize("condition", FAILING)
def test_a_check_that_cannot_be_computed_for_a_row_commits_nothing(
    shared_lake: lw.Lake, name: str, condition: str
) -> None:
    columns = {"text": "string", "number": "int64"}
    table = shared_lake.create(name, columns, constraints={"fits": condition})
    append(shared_lake, name, {"text": ["5"], "number": [0]})

    with pytest.raises(InvalidExpression, match="Check fits"):
        append(shared_lake, name, {"text": ["five"], "number": [5]})
    assert table.version == 1


@pytest.mark.parametrize("condition", FAILING)
def test_a_deletion_that_cannot_be_computed_for_a_row_deletes_nothing(
    shared_lake: lw.Lake, name: str, condition: str
) -> None:
    table = shared_lake.create(name, {"text": "string", "number": "int64"})
    append(shared_lake, name, {"text": ["5", "five"], "number": [0, 5]})

    with pytest.raises(InvalidExpression), shared_lake.transaction() as tx:
        tx.delete(name, where=condition)
    assert table.version == 1
    assert table.to_arrow().num_rows == 2
