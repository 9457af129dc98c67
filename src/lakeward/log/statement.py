"""SQL with named parameters, one text for both databases, translated once for each driver.

A commit runs a dozen statements and takes about a millisecond in all, so parameters are passed to
the driver as tuples, made without a Python loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

from lakeward.log.tables import LogTable

_Values: TypeAlias = Callable[[Mapping[str, Any]], tuple[Any, ...]]
_NAMED: Final = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")
_ROW_LOCK: Final = re.compile(r"\s+FOR (UPDATE|SHARE)( SKIP LOCKED)?\s*$")


class Statement:
    """SQL text with `:name` parameters. A row lock at the end is omitted for SQLite."""

    __slots__ = ("_source", "_translated")

    def __init__(self, source: str) -> None:
        self._source = source
        self._translated: dict[str, tuple[str, _Values]] = {}

    def sql(self, dialect: str) -> str:
        """Return the SQL text in a dialect."""
        return self._for(dialect)[0]

    def bind(self, dialect: str, params: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
        """Return the SQL text in a dialect, and the parameters as the driver expects them."""
        try:
            sql, values = self._translated[dialect]
        except KeyError:
            sql, values = self._for(dialect)
        return sql, values(params)

    def _for(self, dialect: str) -> tuple[str, _Values]:
        found = self._translated.get(dialect)
        if found is None:
            found = self._translated[dialect] = self._translate(dialect)
        return found

    def _translate(self, dialect: str) -> tuple[str, _Values]:
        # SQLite has one writer at a time, and needs no locks on rows.
        is_sqlite = dialect == "sqlite"
        text = _ROW_LOCK.sub("", self._source) if is_sqlite else self._source
        return _NAMED.sub("?" if is_sqlite else "%s", text), _values(_NAMED.findall(text))


def insertion(
    table: LogTable, conflict: str = "ON CONFLICT DO NOTHING", without: Sequence[str] = ()
) -> Statement:
    """Return an INSERT of one row into all columns of a table except those in `without`."""
    names = [name for name in table.columns if name not in without]
    columns = ", ".join(f'"{name}"' for name in names)
    marks = ", ".join(f":{name}" for name in names)
    return Statement(f"INSERT INTO {table.name} ({columns}) VALUES ({marks}) {conflict}")  # noqa: S608  our own names


def _values(order: Sequence[str]) -> _Values:
    """Return a function that selects a statement's parameters in order, without a Python loop."""
    if not order:
        return lambda _: ()
    if len(order) == 1:
        (name,) = order
        return lambda params: (params[name],)
    return itemgetter(*order)
