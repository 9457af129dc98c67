"""Translates Arrow filters to Lakeward conditions, so that the log can skip files by them.

Arrow expressions cannot be inspected, but `to_substrait` serializes them to a message that is
parsed here. A part that is not understood is left out if that only weakens the condition: the
filter itself selects the rows, and the condition only decides which files are read.
"""

from __future__ import annotations

import base64
import decimal
import math
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.model.expressions.nodes import (
    BOOLEAN,
    And,
    Column,
    Compare,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
)
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Primitive, Struct, Type
from lakeward.model.values import Value

_COMPARISONS: Final[dict[str, Comparison]] = {
    "equal": "=",
    "not_equal": "!=",
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
}
_FLIPPED: Final[dict[Comparison, Comparison]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS: Final = frozenset({2, 3, 5, 7})
_STRINGS: Final = frozenset({12, 21, 22})
_FLOATING: Final = ("float", "double")
_NULL: Final = 29
_UNKNOWN: Final = Literal(None, BOOLEAN)

Message: TypeAlias = dict[int, list[Any]]
"""The fields of a message by number: integers, or bytes of texts and nested messages."""


class Filter(NamedTuple):
    """What is known about a filter: a condition that it implies, and the columns that it reads."""

    condition: Expression | None
    columns: frozenset[str] | None  # None if not known
    is_whole: bool = False  # whether the condition is equivalent to the filter


def understood(given: pc.Expression, schema: Schema, *, sql: bool = False) -> Filter:
    """Parse a filter over rows of a schema, as far as possible.

    Args:
        given: The filter.
        schema: The columns.
        sql: The filter is a translation of an SQL condition, and has its meaning: NaN is equal to
            itself and above all numbers, and a null is neither in a list nor outside it.
    """
    try:
        body = bytes(given.to_substrait(schema.to_arrow()))
        message = _message(body)
        names = {
            _one(f, 2, 0): _one(f, 3, b"").decode()
            for f in (_message(_one(_message(e), 3, b"")) for e in message.get(2, ()))
        }
        root = _message(_one(_message(_one(message, 3)), 1))
        reader = _Reader(schema, names, sql=sql)
        condition = reader.condition(root, exact=False)
        whole = condition is not None and reader.condition(root, exact=True) is not None
    except (pa.ArrowException, KeyError, ValueError, IndexError, OverflowError, struct.error):
        return Filter(None, None)
    columns = frozenset(reader.columns) if reader.knows_columns else None
    return Filter(condition, columns, whole)


class _Reader:
    def __init__(self, schema: Schema, names: dict[int, str], *, sql: bool) -> None:
        self._fields = schema.fields
        self._names = names
        self._sql = sql
        self.columns: set[str] = set()
        self.knows_columns = True

    def condition(self, node: Message, *, exact: bool) -> Expression | None:
        """Return the condition of a node; None if it cannot be translated.

        Unless `exact`, the condition may be weaker than the node.
        """
        if 3 in node:
            return self._call(_message(_one(node, 3)), exact=exact)
        if 8 in node:
            return self._member(_message(_one(node, 8)), exact=exact)
        if 1 in node and self._sql:
            return _UNKNOWN if _is_null(node) else _literal(node, BOOLEAN)
        found = self._value(node)
        return found if self._sql and found is not None and found.type == BOOLEAN else None

    def _call(self, call: Message, *, exact: bool) -> Expression | None:
        name = self._names.get(_one(call, 1, 0), "").partition(":")[0]
        nodes = [_message(_one(_message(a), 3)) for a in call.get(4, ())]
        if name in ("and", "or"):
            terms = [self.condition(n, exact=exact) for n in nodes]
            known = tuple(t for t in terms if t is not None)
            if len(known) < len(terms) and (exact or name == "or"):
                return None
            if len(known) < 2:
                return known[0] if known else None
            return And(known) if name == "and" else Or(known)
        if name == "not":
            inner = self.condition(nodes[0], exact=True)
            if inner is None or (_has_floats(inner) and not self._sql):
                return None
            return Not(inner)
        if name in ("is_null", "is_not_null"):
            column = self._value(nodes[0])
            if column is None:
                return None
            return IsNull(column) if name == "is_null" else Not(IsNull(column))
        if name == "is_nan" and self._sql:
            column = self._value(nodes[0])
            if column is None or str(column.type) not in _FLOATING:
                return None
            return Compare("=", column, Literal(math.nan, column.type))
        if name in _COMPARISONS:
            return self._comparison(_COMPARISONS[name], nodes)
        for node in nodes:
            self._note(node)
        return None

    def _comparison(self, op: Comparison, nodes: list[Message]) -> Expression | None:
        left, right = nodes
        if 1 in left:
            left, right, op = right, left, _FLIPPED.get(op, op)
        one = self._value(left)
        if one is None:
            self._note(right)
            return None
        if 1 in right:
            other: Expression | None = _literal(right, one.type)
            if other is None and self._sql and _is_null(right):
                return _UNKNOWN
        else:
            other = self._value(right) if self._sql else None
        if other is None or other.type != one.type:
            self._note(right)
            return None
        return Compare(op, one, other)

    def _member(self, node: Message, *, exact: bool) -> Expression | None:
        column = self._value(_message(_one(node, 1)))
        if column is None:
            return None
        options = [_message(o) for o in node.get(2, ())]
        given = [o for o in options if not (self._sql and _is_null(o))]
        values = [_literal(o, column.type) for o in given]
        known = tuple(v for v in values if v is not None)
        # For Arrow null is not in a list; in SQL the result is unknown.
        if not known or len(known) < len(values) or (exact and not self._sql):
            return None
        found = In(column, known)
        return found if len(given) == len(options) else Or((found, _UNKNOWN))

    def _value(self, node: Message) -> Expression | None:
        """Return a node's column, or in SQL its condition; for other nodes None.

        The columns below other nodes are recorded.
        """
        if 2 in node:
            return self._column(node)
        if self._sql and (3 in node or 8 in node):
            return self.condition(node, exact=True)
        self._note(node)
        return None

    def _column(self, node: Message) -> Column | None:
        place = _message(_one(_message(_one(_message(_one(node, 2)), 1)), 2))
        field = self._fields[_one(place, 1, 0)]
        self.columns.add(field.name)
        path: list[str] = []
        member = field
        while 2 in place:
            place = _message(_one(_message(_one(place, 2)), 2))
            if not self._sql or not isinstance(member.type, Struct):
                return None
            member = member.type.fields[_one(place, 1, 0)]
            path.append(member.name)
        return Column(field, tuple(path))

    def _note(self, node: Message) -> None:
        """Record the columns below a node, or that they are unknown if its kind is unknown."""
        if 2 in node:
            self._column(node)
        elif 3 in node:
            for argument in _message(_one(node, 3)).get(4, ()):
                self._note(_message(_one(_message(argument), 3)))
        elif 11 in node:
            self._note(_message(_one(_message(_one(node, 11)), 2)))
        elif 1 not in node:
            self.knows_columns = False


def _has_floats(expression: Expression) -> bool:
    """Return whether a condition compares floats: Arrow orders NaN differently."""
    from lakeward.model.expressions.nodes import columns_in

    return any(str(c.type) in _FLOATING for c in columns_in(expression))


def _is_null(node: Message) -> bool:
    return 1 in node and _NULL in _message(_one(node, 1))


def _literal(node: Message, type_: Type) -> Literal | None:
    """Return the literal of a node; None if it does not have the type."""
    if 1 not in node:
        return None
    body = _message(_one(node, 1))
    kind, value = next((k, v[0]) for k, v in body.items() if k not in (50, 51))
    found = _value(kind, value, type_)
    return None if found is None else Literal(found, type_)


def _value(kind: int, value: Any, type_: Type) -> Value:
    if isinstance(type_, Decimal):
        return _decimal(value, type_) if kind == 24 else None
    if not isinstance(type_, Primitive):
        return None
    match type_.name:
        case "boolean" if kind == 1:
            return bool(value)
        case "int8" | "int16" | "int32" | "int64" if kind in _INTEGERS:
            return _signed(value)
        case "float" if kind == 10:
            return float(struct.unpack("<f", value)[0])
        case "float" if kind == 11:
            found = float(struct.unpack("<d", value)[0])
            narrow = struct.unpack("<f", struct.pack("<f", found))[0]
            return found if narrow == found or math.isnan(found) else None
        case "double" if kind == 11:
            return float(struct.unpack("<d", value)[0])
        case "string" if kind in _STRINGS:
            return bytes(_text(value, kind)).decode()
        case "binary" if kind == 13:
            return base64.b64encode(value).decode()
        case "date" if kind == 16:
            return _signed(value)
        case "timestamp" if kind == 27:
            return _signed(value)
        case "timestamp_ntz" if kind == 14:
            return _signed(value)
        case "timestamp" | "timestamp_ntz" if kind in (34, 35):
            body = _message(value)
            return _signed(_one(body, 2, 0)) if _one(body, 1, 0) == 6 else None
    return None


def _text(value: bytes, kind: int) -> bytes:
    return _one(_message(value), 1, b"") if kind == 22 else value


def _decimal(value: bytes, kind: Decimal) -> Value:
    body = _message(value)
    unscaled = int.from_bytes(_one(body, 1), "little", signed=True)
    scale = _one(body, 3, 0)
    if scale > kind.scale:
        return None
    exact = decimal.Decimal(unscaled).scaleb(-scale)
    return f"{exact:.{kind.scale}f}"


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


_NEEDED: Final = object()


def _one(message: Message, number: int, default: Any = _NEEDED) -> Any:
    """Return the value of a field; raise `KeyError` if it is required and missing."""
    found = message.get(number)
    if found:
        return found[-1]
    if default is _NEEDED:
        raise KeyError(number)
    return default


def _message(data: bytes) -> Message:
    """Parse the fields of a message in Protocol Buffers wire format."""
    out: Message = {}
    for number, value in _fields(data):
        out.setdefault(number, []).append(value)
    return out


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}[kind]
        if at + size > len(data):
            raise ValueError(number)
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
