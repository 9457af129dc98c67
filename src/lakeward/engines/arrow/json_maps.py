"""Rewrites values in lines of JSON that Arrow's reader cannot read.

Maps become lists of keys and values. The texts `NaN`, `Infinity` and `-Infinity`, which exports
have for floats because JSON has no such numbers, become numbers that Arrow understands. All other
values come out as they are written: numbers are copied as text, so that no digit of a decimal is
lost.
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
_NUMBERS: Final = {text: orjson.Fragment(text) for text in ("NaN", "Infinity", "-Infinity")}
_NOT_FINITE: Final = re.compile(rb'"(NaN|-?Infinity)"')
KEY: Final = "key"
VALUE: Final = "value"


class Rewriting:
    """Rewrites objects as `[{"key": …, "value": …}]` where a column, or a part of it, is a map.

    Texts for floats are rewritten in lines that have some.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._maps = _members(schema, floats=False)
        self._every = _members(schema, floats=True)
        self._decoder = json.JSONDecoder(
            object_pairs_hook=_unique,
            parse_float=orjson.Fragment,
            parse_int=orjson.Fragment,
            parse_constant=orjson.Fragment,
        )

    def rewritten(self, lines: bytes) -> bytes:
        """Return the lines with lists for maps; raise `ValueError` for text that is not JSON."""
        rewrite = self._every if _NOT_FINITE.search(lines) else self._maps
        if rewrite is None:
            return lines
        text, at, out = lines.decode("utf-8-sig"), 0, list[bytes]()
        try:
            while (at := _end_of_space(text, at)) < len(text):
                row, at = self._decoder.raw_decode(text, at)
                out.append(orjson.dumps(rewrite(row), option=orjson.OPT_APPEND_NEWLINE))
        except (TypeError, RecursionError) as error:
            # orjson raises TypeError for text that is not Unicode, such as "\ud800".
            raise ValueError(str(error)) from error
        return b"".join(out)


def _rewriter(kind: pa.DataType, *, floats: bool) -> _Rewrite | None:
    """Return the function that rewrites values of a type; None if there is nothing to rewrite."""
    types = pa.types
    if floats and types.is_floating(kind):
        return lambda value: _NUMBERS.get(value, value) if isinstance(value, str) else value
    if types.is_struct(kind):
        return _members(kind, floats=floats)
    if types.is_list(kind):
        element = _rewriter(kind.value_type, floats=floats)
        if element is None:
            return None
        return lambda value: list(map(element, value)) if isinstance(value, list) else value
    if types.is_map(kind):
        item = _rewriter(kind.item_type, floats=floats) or _same
        return lambda value: (
            None
            if value is None
            else [{KEY: key, VALUE: item(part)} for key, part in _entries(value)]
        )
    return None


def _members(fields: Any, *, floats: bool) -> _Rewrite | None:
    """Return the function that rewrites the members of an object; None if none is rewritten."""
    found = {field.name: _rewriter(field.type, floats=floats) for field in fields}
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
