"""Statements: one text, translated for both databases in one process."""

from __future__ import annotations

import pytest

from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import ALL


@pytest.mark.parametrize("lock", ["FOR UPDATE", "FOR SHARE", "FOR UPDATE SKIP LOCKED"])
def test_only_postgresql_locks_rows(lock: str) -> None:
    statement = Statement(f"SELECT name FROM lakeward_head WHERE version = :version {lock}")

    assert statement.bind("sqlite", {"version": 3}) == (
        "SELECT name FROM lakeward_head WHERE version = ?",
        (3,),
    )
    assert statement.bind("postgresql", {"version": 3}) == (
        f"SELECT name FROM lakeward_head WHERE version = %s {lock}",
        (3,),
    )


def test_the_order_of_translation_does_not_matter() -> None:
    text = "SELECT name FROM lakeward_head WHERE version = :version LIMIT 7"
    forward, backward = Statement(text), Statement(text)
    forward.bind("sqlite", {"version": 1})
    backward.bind("postgresql", {"version": 1})

    for dialect in ("postgresql", "sqlite"):
        assert forward.bind(dialect, {"version": 2}) == backward.bind(dialect, {"version": 2})


def test_an_insertion_has_every_column() -> None:
    for table in ALL:
        row = {name: n for n, name in enumerate(table.columns)}
        sql, values = insertion(table).bind("sqlite", row)
        assert values == tuple(range(len(table.columns)))
        assert all(f'"{name}"' in sql for name in table.columns)


def test_text_takes_each_parameter_as_often_as_it_is_named() -> None:
    statement = Statement("SELECT :a, :b, :a WHERE x = ':c' OR y::text = 'z'")
    given = {"a": 1, "b": 2, "c": 3}

    sql, values = statement.bind("sqlite", given)

    assert values[:3] == (1, 2, 1)
    assert "::text" in sql


def test_parameters_are_never_pasted() -> None:
    hostile = "'; DROP TABLE lakeward_head; --"
    for dialect in ("sqlite", "postgresql"):
        sql, values = Statement("SELECT 1 WHERE x = :x").bind(dialect, {"x": hostile})
        assert hostile not in sql
        assert values == (hostile,)
