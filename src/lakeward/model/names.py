"""Table names: `orders`, or `sales.orders` with a namespace."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from lakeward.errors import InvalidName

LONGEST: Final = 128
"""The most characters of a table's name, and of a namespace."""
_PART: Final = re.compile(r"[^\W_][\w-]{0,127}|_[\w-]{1,127}", re.UNICODE)

# Directories with another meaning inside the directory of a table.
_RESERVED: Final = frozenset({"_delta_log", "_change_data"})


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's full name, which is safe as a directory name and as an SQL identifier."""

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Split a name into namespace and name; raise `InvalidName` if it is not a table name."""
        if isinstance(text, TableName):
            return text
        given: object = text
        if not isinstance(given, str):
            raise _invalid(given)
        return _parsed(given)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


@lru_cache(maxsize=16_384)
def _parsed(text: str) -> TableName:
    parts = text.split(".")
    plain = all(_PART.fullmatch(p) and p not in _RESERVED for p in parts)
    if not plain or len(parts) > 2:
        raise _invalid(text)
    return TableName(parts[0] if len(parts) == 2 else "", parts[-1])


def _invalid(given: object) -> InvalidName:
    what = f"{given!r} is not a table name."
    hint = "Use letters, digits, '_' and '-', with at most one dot between namespace and name."
    return InvalidName(what, hint=hint, name=str(given))


_LISTED: Final = 5
_SUGGESTED: Final = 3
_ALIKE: Final = 0.75


def hint_for_unknown(name: TableName, known: Iterable[TableName]) -> str:
    """Return a hint for a user who gave a table name that is not among the known ones."""
    tables = sorted(known)
    if not tables:
        return "It has no tables yet: lake.create or `lakeward create` makes one."
    near = [one for one in tables if _alike(one.name, name.name)]
    near.sort(key=lambda one: not _alike(one.namespace, name.namespace))
    if near:
        return f"Did you mean {' or '.join(map(str, near[:_SUGGESTED]))}?"
    if len(tables) <= _LISTED:
        return f"It has {', '.join(map(str, tables))}."
    return "`lakeward tables` lists what it has."


def _alike(one: str, other: str) -> bool:
    """Whether two names are nearly the same, ignoring case."""
    return difflib.SequenceMatcher(a=one.lower(), b=other.lower()).ratio() >= _ALIKE
