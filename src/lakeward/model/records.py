"""Records: frozen results of a lake, with one JSON form for the command line and for services.

A record is a frozen dataclass or a named tuple. Its JSON form has its fields by their names, and
the properties that are marked with `in_json`; or it is the result of the record's own `to_json`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Any, Final, TypeVar

HIDDEN: Final[Mapping[str, None]] = {"json": None}
"""Metadata of a field that is left out of the JSON form."""

_F = TypeVar("_F", bound=Callable[[Any], Any])


def shown_as(name: str) -> dict[str, str]:
    """Return metadata of a field that has another name in the JSON form."""
    return {"json": name}


def in_json(getter: _F) -> _F:
    """Mark the getter of a property as a part of its record's JSON form."""
    getter.in_json = True  # type: ignore[attr-defined]
    return getter


def to_json(value: Any) -> Any:
    """Return a record, or any value inside one, as JSON values.

    Dates and times are ISO 8601 text, with a zone unless a column has none. Decimals, NaN and
    infinities are text; bytes are base64; text that is not valid Unicode has escapes.
    """
    match value:
        case None | bool():
            return value
        case Enum():
            return to_json(value.value)
        case int():
            return value if -(2**63) <= value < 2**64 else str(value)
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal() | PurePath():
            return to_json(str(value))
        case Mapping():
            return {to_json(str(k)): to_json(v) for k, v in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return to_json(value._asdict())
        case list() | tuple() | set() | frozenset():
            return [to_json(v) for v in value]
        case _ if hasattr(value, "to_json"):
            return to_json(value.to_json())
        case _ if is_record(type(value)):
            names = json_names(value.__class__)
            return {name: to_json(getattr(value, own)) for own, name in names.items()}
        case _:
            return to_json(str(value))


def is_record(kind: type) -> bool:
    """Whether values of a class are records."""
    frozen = is_dataclass(kind) and getattr(kind, "__dataclass_params__").frozen  # noqa: B009  untyped
    return frozen or hasattr(kind, "_asdict")


@cache
def json_names(kind: type) -> dict[str, str]:
    """Return the attributes of a record in its JSON form, with their names there."""
    own = {f.name: f.metadata.get("json", f.name) for f in fields(kind)}
    shown = {f: name for f, name in own.items() if name is not None and not f.startswith("_")}
    marked = {
        name: name
        for base in reversed(kind.__mro__)
        for name, member in vars(base).items()
        if isinstance(member, property) and hasattr(member.fget, "in_json")
    }
    return shown | marked
