"""Checks of arguments; each raises an `InvalidInput` that names the parameter of a wrong value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from lakeward.errors import InvalidInput
from lakeward.model.values import is_text

Choice = TypeVar("Choice", bound=StrEnum)
LARGEST: Final = 2**63 - 1
_SHOWN: Final = 60


def text(value: object, parameter: str) -> str:
    """Return a value if it is text, not empty and without NUL, which PostgreSQL refuses."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise _wrong(value, parameter, "must be text, not empty and without NUL characters")
    if not value.isascii():
        _check_encodable(value, parameter)
    return value


def optional_text(value: object, parameter: str) -> str | None:
    """Return text without NUL, or None; raise for other values."""
    if value is not None and (not isinstance(value, str) or "\0" in value):
        raise _wrong(value, parameter, "must be text without NUL characters")
    if value is not None and not value.isascii():
        _check_encodable(value, parameter)
    return value


def whole(value: object, parameter: str, *, least: int = 0) -> int:
    """Return a whole number from `least` to the largest of 64 bits; raise for other values."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
        limit = "" if least < 0 else f" from {least} on"
        raise _wrong(value, parameter, f"must be a whole number{limit}")
    return value


def number(value: object, parameter: str) -> float:
    """Return a number that is not negative, as a float; raise for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise _wrong(value, parameter, "must be a number that is not negative")
    return float(value)


def flag(value: object, parameter: str) -> bool:
    """Return True or False; raise for other values."""
    if not isinstance(value, bool):
        raise _wrong(value, parameter, "must be True or False")
    return value


def choice(value: object, kind: type[Choice], parameter: str) -> Choice:
    """Return the member of an enumeration with this value, in any case; raise for other values."""
    for one in kind:
        if isinstance(value, str) and value.lower() == one.value:
            return one
    words = ", ".join(one.value for one in kind)
    raise _wrong(value, parameter, f"must be one of {words}")


def mapping(value: object, parameter: str) -> dict[str, Any]:
    """Return a mapping with text keys as a dict, and {} for None; raise for other values."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise _wrong(value, parameter, "must be a dict with text for keys")
    _check_encodable(value, parameter)
    return dict(value)


def texts(value: object, parameter: str) -> list[str]:
    """Return an iterable of texts as a list; raise for other values, a single text included."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        hint = f"Write {parameter}=[{value!r}]." if isinstance(value, str) else None
        raise _wrong(value, parameter, "must be a list of names", hint)
    out = list(value)
    for item in out:
        if not isinstance(item, str):
            raise _wrong(item, parameter, "must be a list of names")
        _check_encodable(item, parameter)
    return out


def place(value: object, parameter: str) -> str:
    """Return a path or an address as text; raise for other values."""
    if isinstance(value, Path):
        value = str(value)
    if not isinstance(value, str) or not value or "\0" in value:
        raise _wrong(value, parameter, "must be a path or an address")
    return value


def _check_encodable(value: object, parameter: str) -> None:
    """Raise for text with half of a surrogate pair, also inside of a mapping or a list.

    It cannot be encoded as UTF-8, so neither the store nor any file can hold it.
    """
    match value:
        case str():
            if not is_text(value):
                raise _wrong(value, parameter, "must be text without halves of surrogate pairs")
        case Mapping():
            for key, one in value.items():
                _check_encodable(key, parameter)
                _check_encodable(one, parameter)
        case list() | tuple():
            for one in value:
                _check_encodable(one, parameter)


def _wrong(value: object, parameter: str, rule: str, hint: str | None = None) -> InvalidInput:
    shown = repr(value)
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}…"
    what = f"`{parameter}` {rule}; it is {shown}."
    return InvalidInput(what, hint=hint, parameter=parameter)
