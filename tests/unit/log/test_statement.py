"""Statements: one construct, compiled for both databases in one process."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import bindparam

from lakeward.log.statement import Statement
from lakeward.log.tables import head


def _limited() -> Statement:
    """A construct with constants, which each dialect numbers in its own way."""
    return Statement(sa.select(head.c.name).where(head.c.version == bindparam("version")).limit(7))


def test_both_databases_get_their_own_constants() -> None:
    statement = _limited()
    first = [statement.bind(d, {"version": 3})[1] for d in ("sqlite", "postgresql")]
    again = [statement.bind(d, {"version": 3})[1] for d in ("sqlite", "postgresql")]

    assert first == again
    for values in again:
        assert 3 in values
        assert 7 in values


def test_the_order_of_compilation_does_not_matter() -> None:
    forward, backward = _limited(), _limited()
    forward.bind("sqlite", {"version": 1})
    backward.bind("postgresql", {"version": 1})

    for dialect in ("postgresql", "sqlite"):
        assert forward.bind(dialect, {"version": 2}) == backward.bind(dialect, {"version": 2})


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
