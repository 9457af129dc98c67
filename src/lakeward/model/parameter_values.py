"""Parses values of parameters that arrive as text or as JSON, such as on the command line.

A text is `NAME=VALUE`, which is a text, or `NAME:TYPE=VALUE`. In JSON a value that JSON lacks is an
object: `{"type": "date", "value": "2026-01-31"}`. The results are Python values, which are bound or
become literals as `lakeward.model.parameters` describes.
"""

from __future__ import annotations

import binascii
import decimal
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

import orjson

from lakeward.errors import InvalidInput
from lakeward.model import parameters
from lakeward.model.parameters import Params

_SHOWN: Final = 60
_FORM: Final = "Write NAME=VALUE, or NAME:TYPE=VALUE such as since:date=2026-01-31."


def of_texts(given: Iterable[str] | None) -> dict[str, Any] | None:
    """Return the values by their names; None if there are none.

    Raises:
        InvalidInput: A text has not the form of a parameter, or a value is not of its type.
    """
    out: dict[str, Any] = {}
    for text in given or ():
        before, equals, value = text.partition("=")
        name, colon, kind = (part.strip() for part in before.partition(":"))
        if not equals or not name.isidentifier() or (colon and not kind):
            what = f"{text[:_SHOWN]!r} is not a parameter with a value."
            raise InvalidInput(what, hint=_FORM, parameter="param")
        if name in out:
            what = f"There are two values for :{name}."
            hint = f"Write {name}:json=[1, 2] for a list."
            raise InvalidInput(what, hint=hint, parameter="param")
        out[name] = _typed(name, kind or "text", value)
    return out or None


def of_json(params: Any) -> Params | None:
    """Return parameters that were sent as JSON, with typed objects converted to their values.

    Raises:
        InvalidInput: A typed object is malformed, or a value is not of its type.
    """
    if isinstance(params, Mapping):
        return {name: _of_json(str(name), value) for name, value in params.items()}
    if isinstance(params, Sequence) and not isinstance(params, str | bytes):
        return [_of_json(str(n), value) for n, value in enumerate(params, 1)]
    return None if params is None else parameters.checked(params)


def to_json(params: Params | None) -> Any:
    """Return parameters as JSON values, from which `of_json` returns them.

    Raises:
        InvalidInput: They are no parameters, or a value cannot be one.
    """
    if params is None:
        return None
    parameters.checked(params)
    if isinstance(params, Mapping):
        return {str(name): _to_json(value) for name, value in params.items()}
    return [_to_json(value) for value in params]


def to_texts(params: Params | None) -> list[str] | None:
    """Return values by their names as texts that `of_texts` parses; None if there are none.

    Raises:
        InvalidInput: The values have no names, or one cannot be a parameter.
    """
    if not params:
        return None
    if not isinstance(params, Mapping):
        what = "Parameters of a request to a service have names."
        raise InvalidInput(what, hint="Write :name, and give params={'name': value}.")
    return [f"{name}:json={orjson.dumps(_to_json(v)).decode()}" for name, v in params.items()]


def _of_json(name: str, value: Any) -> Any:
    match value:
        case dict():
            kind, text = value.get("type"), value.get("value")
            if set(value) != {"type", "value"} or not isinstance(text, str):
                what = f"The value of :{name} is an object that is not a type with a value."
                hint = 'Send {"type": "date", "value": "2026-01-31"}.'
                raise InvalidInput(what, hint=hint, parameter="params")
            return _typed(name, str(kind), text)
        case list():
            return [_of_json(name, one) for one in value]
        case _:
            return value


def _to_json(value: Any) -> Any:
    if parameters.is_list(value):
        return [_to_json(one) for one in value]
    plain = parameters.plain(value)
    match plain:
        case None | bool() | str():
            return plain
        case int():
            return {"type": "int", "value": str(plain)}
        case float():
            return {"type": "float", "value": repr(plain)}
        case bytes():
            return {"type": "bytes", "value": plain.hex()}
        case datetime():
            return {"type": "timestamp", "value": plain.isoformat()}
        case date():
            return {"type": "date", "value": plain.isoformat()}
        case _:
            return {"type": "decimal", "value": str(plain)}


def _typed(name: str, kind: str, text: str) -> Any:
    read = _TYPES.get(kind.lower())
    if read is None:
        what = f"The value of :{name} has the unknown type {kind[:_SHOWN]!r}."
        raise InvalidInput(what, hint=f"Types are {', '.join(_TYPES)}.", parameter=name)
    try:
        found = read(text)
    except (ValueError, decimal.InvalidOperation, binascii.Error) as error:
        what = f"The value of :{name}, {text[:_SHOWN]!r}, is not a value of type {kind.lower()}."
        raise InvalidInput(what, hint=_EXAMPLES.get(kind.lower()), parameter=name) from error
    return _of_json(name, found) if kind.lower() == "json" else found


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(text)
    return text.strip().lower() == "true"


def _null(text: str) -> None:
    if text:
        raise ValueError(text)


_TYPES: Final[Mapping[str, Callable[[str], Any]]] = {
    "text": str,
    "int": int,
    "float": float,
    "decimal": decimal.Decimal,
    "bool": _boolean,
    "date": lambda text: date.fromisoformat(text.strip()),
    "timestamp": lambda text: datetime.fromisoformat(text.strip()),
    "bytes": bytes.fromhex,
    "json": orjson.loads,
    "null": _null,
}
_EXAMPLES: Final = {
    "bool": "Write true or false.",
    "date": "Write it as 2026-01-31.",
    "timestamp": "Write it as 2026-01-31T12:00:00+00:00; without an offset it has no time zone.",
    "bytes": "Write hexadecimal digits, such as 00ff.",
    "json": "Write JSON, such as [1, 2] or null; texts in double quotes.",
    "null": "Write nothing after the equals sign.",
}
