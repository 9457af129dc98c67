"""To which types a column may be changed without rewriting files: those that hold every value."""

from __future__ import annotations

from typing import Final

from lakeward.model.types import Decimal, Primitive, Type

_INTEGERS: Final = ("int8", "int16", "int32", "int64")
_DIGITS: Final = {"int8": 3, "int16": 5, "int32": 10, "int64": 19}
_IN_DOUBLES: Final = _INTEGERS[:3]
_FINER: Final = {"timestamp_ms": "timestamp", "timestamp_ms_ntz": "timestamp_ntz"}


def widens(old: Type, new: Type) -> bool:
    """Return whether the new type holds every value of the old type, or is the same."""
    if old == new:
        return True
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        whole = old.precision - old.scale
        return new.scale >= old.scale and new.precision - new.scale >= whole
    if not isinstance(old, Primitive):
        return False
    if isinstance(new, Decimal):
        digits = _DIGITS.get(old.name)
        return digits is not None and new.precision - new.scale >= digits
    if not isinstance(new, Primitive):
        return False
    if old.name in _INTEGERS and new.name in _INTEGERS:
        return _INTEGERS.index(old.name) < _INTEGERS.index(new.name)
    if new.name == "double":
        return old.name in (*_IN_DOUBLES, "float")
    return _FINER.get(old.name) == new.name


def same_order(old: Type, new: Type) -> bool:
    """Return whether a value has the same key in the statistics index in both types.

    The new type must be one that the old type widens to.
    """
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return old.scale == new.scale
    if isinstance(old, Primitive) and isinstance(new, Primitive):
        return (old.name in _INTEGERS) == (new.name in _INTEGERS)
    return old == new


def wider(kind: Type) -> str:
    """Return the types that a type can be changed to, as text for a hint."""
    if isinstance(kind, Decimal):
        return (
            f"a decimal of more digits, such as decimal({min(38, kind.precision + 2)},{kind.scale})"
        )
    found = [
        n
        for n in (*_INTEGERS, "double", "timestamp", "timestamp_ntz")
        if isinstance(kind, Primitive) and n != kind.name and widens(kind, Primitive(n))
    ]
    return " or ".join(found)
