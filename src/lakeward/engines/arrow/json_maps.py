"""Rewrites the maps in lines of JSON as lists of keys and values, which Arrow's reader can read.

All other values come out as they are written: numbers are copied as text, so that no digit of a
decimal is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa

_Rewrite: TypeAlias = Callable[[Any], Any]
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_PAIR: Final = 2
KEY: Final = "key"
VALUE: Final = "value"


class MapsAsLists:
    """Rewrites objects as `[{"key": …, "value": …}]` where a column, or a part of it, is a map."""

    def __init__(self, schema: pa.Schema) -> None:
        self._rewrite = _members(schema)
        self._decoder = json.JSONDecoder(
            object_pairs_hook=_unique,
            parse_float=orjson.Fragment,
            parse_int=orjson.Fragment,
            parse_constant=orjson.Fragment,
        )

    def rewritten(self, lines: bytes) -> bytes:
        """Return the lines with lists for maps; raise `ValueError` for text that is not JSON."""
        if self._rewrite is None:
            return lines
        text, at, out = lines.decode("utf-8-sig"), 0, list[bytes]()
        try:
            while (at := _end_of_space(text, at)) < len(text):
                row, at = self._decoder.raw_decode(text, at)
                out.append(orjson.dumps(self._rewrite(row), option=orjson.OPT_APPEND_NEWLINE))
        except (TypeError, RecursionError) as error:
            # orjson raises TypeError for text that is not Unicode, such as "\ud800".
            raise ValueError(str(error)) from error
        return b"".join(out)


def _rewriter(kind: pa.DataType) -> _Rewrite | None:
    """Return the function that rewrites values of a type; None if the type has no map."""
    types = pa.types
    if types.is_struct(kind):
        return _members(kind)
    if types.is_list(kind):
        element = _rewriter(kind.value_type)
        if element is None:
            return None
        return lambda value: list(map(element, value)) if isinstance(value, list) else value
    if types.is_map(kind):
        item = _rewriter(kind.item_type) or _same
        return lambda value: (
            None
            if value is None
            else [{KEY: key, VALUE: item(part)} for key, part in _entries(value)]
        )
    return None


def _members(fields: Any) -> _Rewrite | None:
    """Return the function that rewrites the members of an object; None if no field has a map."""
    found = {field.name: _rewriter(field.type) for field in fields}
    if not any(found.values()):
        return None
    parts = {name: rewrite or _same for name, rewrite in found.items()}
    return lambda value: (
        {name: parts.get(name, _same)(part) for name, part in value.items()}
        if isinstance(value, dict)
        else value
    )


def _entries(value: Any) -> Any:
    """Return keys and values of an object, or of `[[key, value], …]` where keys are not text."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list) and all(isinstance(p, list) and len(p) == _PAIR for p in value):
        return value
    message = "a map is an object, or a list of pairs"
    raise ValueError(message)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        message = "an object has a name twice"
        raise ValueError(message)
    return found


def _same(value: Any) -> Any:
    return value


def _end_of_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
