"""Inserts values and DataFrames into a statement in place of `{name}`, as `spark.sql` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakeward.engines.spark.extra import pyspark
from lakeward.errors import InvalidInput


def with_values(
    session: Any, text: str, values: Mapping[str, Any], named: Callable[[Any], str]
) -> str:
    """Return the text of a statement with values in place of their names in braces."""
    formatter = pyspark("sql.sql_formatter").SQLStringFormatter(session)
    frames = {k: _Frame(v, named) if hasattr(v, "_jdf") else v for k, v in values.items()}
    try:
        return str(formatter.format(text, **frames))
    except (KeyError, IndexError, ValueError) as error:
        what = f"The statement has a place in braces for which no value was given: {error}."
        hint = f"Given are {', '.join(values)}; write {{{{ and }}}} for braces."
        raise InvalidInput(what, hint=hint) from error


class _Frame:
    """A DataFrame that gets a name in SQL when it is inserted into a text."""

    def __init__(self, frame: Any, named: Callable[[Any], str]) -> None:
        self._frame = frame
        self._named = named
        self._name: str | None = None

    def __str__(self) -> str:
        if self._name is None:
            self._name = self._named(self._frame)
        return self._name

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __getattr__(self, column: str) -> Any:
        return self._frame[column]

    def __getitem__(self, column: str) -> Any:
        return self._frame[column]
