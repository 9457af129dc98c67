"""Turns the filter of a scan by the REST protocol into a condition by which files are left out.

The condition holds for every row that the filter matches, and for others too: clients evaluate the
filter themselves. Only predicates that no null satisfies are turned into SQL, because `not-eq` and
its like match nulls in Iceberg and do not in SQL; what is not understood leaves no file out.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal as Number
from decimal import InvalidOperation
from typing import Any, Final

from lakeward.errors import InvalidInput
from lakeward.model.parameters import spark_literal
from lakeward.model.quoting import identifier
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Field, Primitive

_COMPARED: Final = {"eq": "=", "lt": "<", "lt-eq": "<=", "gt": ">", "gt-eq": ">="}
_INTEGERS: Final = ("int8", "int16", "int32", "int64")
_DEEPEST: Final = 100
_SINGLE: Final = struct.Struct("f")
_FINER: Final = re.compile(r"\.\d{7}")
"""Parts of a microsecond, which Python leaves out."""


def condition_of(given: Any, schema: Schema, *, case_sensitive: bool = True) -> str | None:
    """Return SQL that is true for every row that a filter matches; None if all rows may match.

    Raises:
        InvalidInput: The filter has not the form of one.
    """
    return _Reader(schema, case_sensitive=case_sensitive).read(given, 0)


class _Reader:
    """Reads the expressions of a filter over the columns of a schema."""

    def __init__(self, schema: Schema, *, case_sensitive: bool) -> None:
        self._fold = str if case_sensitive else str.lower
        self._fields: dict[str, list[Field]] = {}
        for field in schema:
            self._fields.setdefault(self._fold(field.name), []).append(field)

    def read(self, given: Any, depth: int) -> str | None:
        """Return SQL for an expression; None for one that tells nothing."""
        if isinstance(given, bool):
            return None if given else "false"
        if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
            what = "The filter has not the form of an expression."
            raise InvalidInput(what, parameter="filter")
        if depth > _DEEPEST:
            return None
        match given["type"]:
            case "false":
                return "false"
            case "and" | "or" as kind:
                return self._joined(given, kind, depth)
            case _:
                return self._predicate(given)

    def _joined(self, given: Mapping[str, Any], kind: str, depth: int) -> str | None:
        sides = [self.read(given.get(side), depth + 1) for side in ("left", "right")]
        known = [f"({side})" for side in sides if side is not None]
        if kind == "and":
            return " AND ".join(known) or None
        return " OR ".join(known) if len(known) == len(sides) else None

    def _predicate(self, given: Mapping[str, Any]) -> str | None:
        field = self._field(given.get("term"))
        if field is None:
            return None
        name, kind = identifier(field.name), given["type"]
        if kind in ("is-null", "not-null"):
            return f"{name} IS {'NOT ' if kind == 'not-null' else ''}NULL"
        if kind == "in":
            values = given.get("values")
            found = [_literal(field, one) for one in values] if isinstance(values, list) else []
            known = [one for one in found if one is not None]
            return f"{name} IN ({', '.join(known)})" if known and known == found else None
        value = _literal(field, given.get("value"))
        if kind in _COMPARED and value is not None:
            return f"{name} {_COMPARED[kind]} {value}"
        if kind == "starts-with" and value is not None and field.type == Primitive("string"):
            return f"startswith({name}, {value})"
        return None

    def _field(self, term: Any) -> Field | None:
        """Return the column of a term; None for transforms, members and unknown names."""
        if isinstance(term, Mapping) and term.get("type") == "reference":
            term = term.get("term")
        found = self._fields.get(self._fold(term), []) if isinstance(term, str) else []
        return found[0] if len(found) == 1 else None


def _literal(field: Field, value: Any) -> str | None:
    """Return a value as SQL if it certainly is one of the column's type; otherwise None."""
    found = _value(field, value)
    return None if found is None else spark_literal(found)


def _value(field: Field, value: Any) -> Any:
    kind = field.type
    name = kind.name if isinstance(kind, Primitive) else ""
    try:
        match value:
            case bool():
                return value if name == "boolean" else None
            case int() if name in _INTEGERS:
                return value if -(2**63) <= value < 2**63 else None
            case int() | float() if name in ("float", "double") and math.isfinite(value):
                # Clients compare with the nearest number of the column's type.
                return float(value) if name == "double" else _SINGLE.unpack(_SINGLE.pack(value))[0]
            case str() if name == "string":
                return value
            case str() if name == "date":
                return date.fromisoformat(value)
            case str() if name in ("timestamp", "timestamp_ntz") and not _FINER.search(value):
                found = datetime.fromisoformat(value)
                return found if (found.tzinfo is None) == (name == "timestamp_ntz") else None
            case str() if isinstance(kind, Decimal):
                exact = Number(value)
                return exact if exact.is_finite() else None
            case _:
                return None
    except (ValueError, OverflowError, InvalidOperation, struct.error):
        return None
