"""SQLAlchemy Core statements, compiled once per dialect and then run on the plain driver.

Core costs about 50 microseconds per execution; a commit runs a dozen statements and takes about a
millisecond in all, so statements are compiled once and parameters go to the driver as tuples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

_DIALECTS: Final[dict[str, sa.Dialect]] = {
    "sqlite": sqlite.dialect(paramstyle="qmark"),
    "postgresql": postgresql.dialect(paramstyle="format"),  # type: ignore[no-untyped-call]
}
_Values: TypeAlias = Callable[[Mapping[str, Any]], tuple[Any, ...]]
_NAMED: Final = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")


class Statement:
    """A Core construct, or SQL text with `:name` parameters, for both databases."""

    __slots__ = ("_compiled", "_source")

    def __init__(self, source: Any) -> None:
        self._source = source
        self._compiled: dict[str, tuple[str, _Values]] = {}

    def sql(self, dialect: str) -> str:
        """The SQL text."""
        return self._for(dialect)[0]

    def bind(self, dialect: str, params: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
        """The SQL text and its parameters in the driver's form."""
        try:
            sql, values = self._compiled[dialect]
        except KeyError:
            sql, values = self._for(dialect)
        return sql, values(params)

    def _for(self, dialect: str) -> tuple[str, _Values]:
        found = self._compiled.get(dialect)
        if found is None:
            found = self._compiled[dialect] = self._compile(dialect)
        return found

    def _compile(self, dialect: str) -> tuple[str, _Values]:
        if isinstance(self._source, str):
            mark = "?" if dialect == "sqlite" else "%s"
            return _NAMED.sub(mark, self._source), _values(_NAMED.findall(self._source))
        compiled = self._source.compile(dialect=_DIALECTS[dialect])
        # Each dialect numbers the constants of a construct in its own way.
        constants = {k: v for k, v in compiled.params.items() if v is not None}
        return str(compiled), _values(compiled.positiontup or (), constants)


def insertion(
    table: sa.Table, conflict: str = "ON CONFLICT DO NOTHING", without: Sequence[str] = ()
) -> Statement:
    """An INSERT of one row into all columns of a table but some."""
    names = [c.name for c in table.c if c.name not in without]
    marks = ", ".join(f":{name}" for name in names)
    return Statement(f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks}) {conflict}")  # noqa: S608  our own names


def equal(table: sa.Table, *names: str) -> list[sa.ColumnElement[bool]]:
    """Conditions that columns equal the parameters of the same names; not for an UPDATE."""
    return [table.c[name] == sa.bindparam(name) for name in names]


def _values(order: Sequence[str], constants: Mapping[str, Any] | None = None) -> _Values:
    """A function that picks a statement's parameters in order, without a Python loop."""
    if constants:
        inner = _values(order)
        return lambda params: inner({**constants, **params})
    if len(order) > 1:
        return itemgetter(*order)
    return lambda params: tuple([params[name] for name in order])
