"""Calls of `table_changes` in statements."""

from __future__ import annotations

import pytest

from lakeward.engines.spark.changes_source import spans
from lakeward.engines.spark.table_changes import ChangesCall, changes_calls, replaced
from lakeward.errors import InvalidInput


def test_calls_are_found_and_replaced_and_texts_are_not() -> None:
    text = (
        "SELECT 'table_changes(1)', `table_changes` FROM TABLE_CHANGES( \"s.a\", 3) x"
        " JOIN table_changes('b','2026-01-31', 'tag')/* table_changes('c', 1) */ y"
    )
    found = changes_calls(text)
    assert [(c.table, c.since, c.until) for c in found] == [
        ("s.a", 3, None),
        ("b", "2026-01-31", "tag"),
    ]
    assert replaced(text, [(call, f"v{n}") for n, call in enumerate(found)]) == (
        "SELECT 'table_changes(1)', `table_changes` FROM v0 x JOIN v1/* table_changes('c', 1) */ y"
    )
    assert changes_calls("SELECT 1") == []
    assert changes_calls("SELECT table_changes FROM t") == []
    assert isinstance(found[0], ChangesCall)


@pytest.mark.parametrize(
    "arguments", ["", "'t'", "t, 1", "'t', 1, 2, 3", "'t', :a", "'t', 1 + 1", "'t', -1", "'t', 1,"]
)
def test_other_arguments_are_refused(arguments: str) -> None:
    with pytest.raises(InvalidInput, match="name in quotes"):
        changes_calls(f"SELECT * FROM table_changes({arguments})")


def test_a_range_is_split_into_ranges_that_cover_it_once() -> None:
    for since, until, tasks in ((1, 1, 4), (0, 99, 4), (5, 21, 8), (3, 2, 4), (1, 1000, 7)):
        found = spans(since, until, tasks)
        assert [v for low, high in found for v in range(low, high + 1)] == list(
            range(since, until + 1)
        )
        assert len(found) <= tasks
