"""SQLAlchemy Core statements, compiled once per dialect and then run on the plain driver.

Core costs some fifty microseconds per execution; a commit runs a dozen statements and takes about a
millisecond in all, so the hot path pays the compilation once and hands tuples to the driver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

_DIALECTS: Final[dict[str, sa.Dialect]] = {
    "sqlite": sqlite.dialect(paramstyle="qmark"),
    "postgresql": postgresql.dialect(paramstyle="format"),  # type: ignore[no-untyped-call]
}
_NAMED: Final = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")


class Statement:
    """A statement with named parameters, whatever the database.

    Args:
        source: A Core construct, or SQL text with `:name` parameters for both databases.
    """

    __slots__ = ("_compiled", "_constants", "_source")

    def __init__(self, source: Any) -> None:
        self._source = source
        self._compiled: dict[str, tuple[str, tuple[str, ...]]] = {}
        # By dialect: each numbers the constants of a construct in its own way.
        self._constants: dict[str, dict[str, Any]] = {}

    def compiled(self, dialect: str) -> tuple[str, tuple[str, ...]]:
        """The SQL text and the names of its parameters in order."""
        found = self._compiled.get(dialect)
        if found is None:
            found = self._compiled[dialect] = self._compile(dialect)
        return found

    def bind(self, dialect: str, params: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
        """The SQL text and its parameters as the driver takes them."""
        sql, order = self.compiled(dialect)
        constants = self._constants.get(dialect)
        if constants:
            params = constants | dict(params)
        return sql, tuple([params[name] for name in order])

    def _compile(self, dialect: str) -> tuple[str, tuple[str, ...]]:
        if isinstance(self._source, str):
            names = tuple(_NAMED.findall(self._source))
            mark = "?" if dialect == "sqlite" else "%s"
            return _NAMED.sub(mark, self._source), names
        compiled = self._source.compile(dialect=_DIALECTS[dialect])
        self._constants[dialect] = {k: v for k, v in compiled.params.items() if v is not None}
        return str(compiled), tuple(compiled.positiontup or ())
