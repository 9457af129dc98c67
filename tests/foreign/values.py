"""Kinds of columns: their Arrow types, the values that go wrong first, and literals of them."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa

from tests.foreign.language import (
    DAY,
    FLOATING,
    INTEGERS,
    Row,
    Term,
    constant,
    digits_of,
    quoted,
    single,
    sql_type,
)

STRUCT = "struct"
NESTED = (STRUCT, "list", "map", "structs")
"""Kinds that can only be tested for null, but for the members of structs."""
MEMBERS = {"c": "int32", "s": "string", "f": "double", "d": "date"}
"""Members of columns of the kind `struct`."""

_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "list": pa.list_(pa.int64()),
    "map": pa.map_(pa.string(), pa.int64()),
    "structs": pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])),
}
_LONG = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
_FIRST, _LAST = -4_371_587, 2_932_896
"""The days -9999-01-01 and 9999-12-31."""
DAY_ONE = -719_162
"""The day 0001-01-01, the first that a literal can name."""
_EPOCH = date(1970, 1, 1)

POOLS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int8": [-128, -1, 0, 1, 2, 127],
    "int16": [-(2**15), -1, 0, 1, 300, 2**15 - 1],
    "int32": [-(2**31), -1, 0, 1, 2, 70_000, 2**31 - 1],
    "int64": [-(2**63), -1, 0, 1, 2, 7, 2**53 + 1, 2**63 - 1],
    "float": [
        *(math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, 1.5, -2.5),
        *map(single, (30.4, 0.1, 1e-45, 3.4028234663852886e38)),
    ],
    "double": [
        *(math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, 1.5, -2.5, 0.1, 30.4, 5e-324, 1e308),
    ],
    "string": [
        *("", " ", "a", "A", "ab", "b", "null", "NULL", "é", "z" * 40, _LONG, _LONG + "a"),
        *(_LONG[:32], _LONG[:32] + "\U0010ffff", "\U0010ffff", "🦆", "%", "_", "a/b=c", "it's"),
        *("\\", "\uffff", "__HIVE_DEFAULT_PARTITION__", "1", "0", "true"),
    ],
    "binary": [b"", b"a", b"ab", b"\x00", b"\xff", b"\xff\xff", b"\x80abc", bytes(range(40))],
    "date": [_FIRST, DAY_ONE - 1, DAY_ONE, -141_428, -1, 0, 1, 20_454, 20_455, _LAST],
    "timestamp": [
        *(_FIRST * DAY, DAY_ONE * DAY - 1, DAY_ONE * DAY, -1, 0, 1, 999, 1000, 1001),
        *(20_454 * DAY - 1, 20_454 * DAY, 20_454 * DAY + 1, 20_454 * DAY + DAY // 2 + 1500),
        *(_LAST * DAY, _LAST * DAY + DAY - 1),
    ],
    "struct": [
        *({"c": c, "s": s, "f": 1.5, "d": 0} for c in (None, -1, 2) for s in (None, "", "a")),
        *({"c": 1, "s": "b", "f": f, "d": d} for f in (None, math.nan, -0.0) for d in (None, 20)),
    ],
    "list": [[], [1], [None, 2]],
    "map": [[], [("a", 1), ("b", None)]],
    "structs": [[], [None], [{"a": 1, "b": None}, {"a": None, "b": "x"}]],
}
POOLS["timestamp_ntz"] = POOLS["timestamp"]


def arrow_type(kind: str) -> pa.DataType:
    if kind == STRUCT:
        return pa.struct([(name, _TYPES[of]) for name, of in MEMBERS.items()])
    return pa.decimal128(*digits_of(kind)) if kind.startswith("decimal") else _TYPES[kind]


def pool(kind: str) -> list[Any]:
    """Odd values of a kind."""
    if not kind.startswith("decimal"):
        return POOLS[kind]
    precision, scale = digits_of(kind)
    whole = [0, 1, -1, 5, 150, -201, 10**precision - 1, 1 - 10**precision]
    with localcontext(prec=80):
        return [Decimal(n).scaleb(-scale) for n in whole if abs(n) < 10**precision]


def to_arrow(rows: Sequence[Row], columns: Mapping[str, str]) -> pa.Table:
    """Rows as a writer takes them."""
    found = {name: array([r[name] for r in rows], kind) for name, kind in columns.items()}
    return pa.table(found)


def array(values: Sequence[Any], kind: str) -> pa.Array:
    if kind == STRUCT:
        members = [
            array([None if v is None else v[name] for v in values], of)
            for name, of in MEMBERS.items()
        ]
        missing = pa.array([v is None for v in values], pa.bool_())
        return pa.StructArray.from_arrays(members, fields=list(arrow_type(kind)), mask=missing)
    if kind.startswith("timestamp"):
        return pa.array(values, pa.int64()).cast(arrow_type(kind))
    if kind == "date":
        return pa.array(values, pa.int32()).cast(pa.date32())
    return pa.array(values, arrow_type(kind))


def from_arrow(found: pa.Table) -> list[Row]:
    """Rows as a reader gave them, in Python."""
    columns = {name: _python(found[name]) for name in found.column_names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values())]  # noqa: B905


def _python(found: pa.ChunkedArray) -> list[Any]:
    kind = found.type
    if pa.types.is_struct(kind):
        chunk = found.combine_chunks()
        chunk = chunk.chunk(0) if isinstance(chunk, pa.ChunkedArray) and chunk.num_chunks else chunk
        members = {f.name: _python(pa.chunked_array([chunk.field(f.name)])) for f in kind}
        rows = [dict(zip(members, v, strict=True)) for v in zip(*members.values())]  # noqa: B905
        return [r if ok else None for r, ok in zip(rows, chunk.is_valid().to_pylist(), strict=True)]
    if pa.types.is_date(kind):
        return found.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(kind):
        return found.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist()
    if pa.types.is_map(kind):
        return [None if v is None else list(v) for v in found.to_pylist()]
    return found.to_pylist()


def exactly(value: Any) -> Any:
    """A value in a form that can be sorted and where equal means the same."""
    if value is None:
        return ()
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else value.hex())
    if isinstance(value, Mapping):
        return ("struct", tuple((k, exactly(v)) for k, v in sorted(value.items())))
    if isinstance(value, list | tuple):
        return ("list", tuple(exactly(v) for v in value))
    return (type(value).__name__, str(value) if isinstance(value, Decimal) else value)


def literals(kind: str, value: Any) -> list[Term]:
    """Ways to write a value beside a column of a kind; none where there is no way."""
    if value is None:
        return [constant("NULL", kind, None), constant(f"CAST(NULL AS {_cast(kind)})", kind, None)]
    if kind == "boolean":
        return [constant(str(value).upper(), kind, value)]
    if kind in INTEGERS:
        exact = constant(str(value), kind, value)
        return [exact, constant(f"{value}.0", "decimal(21,1)", Decimal(value))]
    if kind.startswith("decimal"):
        return [constant(f"{value:f}", kind, value)]
    if kind in FLOATING:
        return _of_float(kind, value)
    if kind == "string":
        return [constant(quoted(value), kind, value)]
    if kind == "binary":
        return [constant(f"X'{value.hex()}'", kind, value)]
    if kind == "date":
        text = _date_text(value)
        forms = [] if text is None else [f"DATE '{text}'", f"'{text}'", f"CAST('{text}' AS DATE)"]
        return [constant(form, kind, value) for form in forms]
    return _of_instant(value)


def neighbours(kind: str, value: Any) -> list[Any]:
    """The values next to a value."""
    if kind in INTEGERS:
        high = 2 ** (INTEGERS[kind] - 1)
        return [v for v in (value - 1, value + 1) if -high <= v < high]
    if kind.startswith("decimal"):
        with localcontext(prec=80):
            step = Decimal(1).scaleb(-digits_of(kind)[1])
            return [v for v in (value - step, value + step) if len(v.as_tuple().digits) <= 38]
    if kind == "double" and math.isfinite(value):
        return [math.nextafter(value, -math.inf), math.nextafter(value, math.inf)]
    if kind == "float" and math.isfinite(value):
        return [_next_single(value, -1), _next_single(value, 1), float(repr(_short(value)))]
    if kind == "string":
        return [value + "\x00", value[:-1], value[:8], value[:32], value + "a"]
    if kind == "binary":
        return [value + b"\x00", value[:-1]]
    if kind == "date" or kind.startswith("timestamp"):
        return [value - 1, value + 1, value - 1000, value + DAY]
    return []


def random_value(kind: str, pick: random.Random) -> Any:
    return None if pick.random() < 0.15 else pick.choice(pool(kind))


def _cast(kind: str) -> str:
    return "STRING" if kind in NESTED else sql_type(kind)


def _of_float(kind: str, value: float) -> list[Term]:
    cast = constant(f"CAST('{value!r}' AS {kind.upper()})", kind, value)
    if kind == "float":
        cast = constant(f"CAST('{_short(value)!r}' AS FLOAT)", kind, single(value))
    wide = constant(f"CAST('{value!r}' AS DOUBLE)", "double", value)
    if not math.isfinite(value) or abs(value) > 1e300 or 0 < abs(value) < 1e-300:
        return [cast, wide]
    text = repr(value) if "e" in repr(value) else f"{value!r}e0"
    forms = [cast, wide, constant(text, "double", value)]
    if 1e-6 < abs(value) < 1e6 or value == 0:
        short = f"{Decimal(repr(_short(value))):f}"
        forms.append(constant(short, "double", float(short)))
    return forms


def _short(value: float) -> float:
    """The number that people write for a float of 32 bits: 30.4, not 30.399999618530273."""
    if not math.isfinite(value) or single(value) != value:
        return value
    return next(f for f in (float(f"{value:.{n}g}") for n in range(1, 18)) if single(f) == value)


def _next_single(value: float, step: int) -> float:
    if value == 0:
        return step * single(1e-45)
    (bits,) = struct.unpack("i", struct.pack("f", value))
    bits += step if value > 0 else -step
    return float(struct.unpack("f", struct.pack("i", bits))[0])


def _date_text(days: int) -> str | None:
    if not DAY_ONE <= days <= _LAST:
        return None
    return (_EPOCH + timedelta(days=days)).isoformat()


def _of_instant(micros: int) -> list[Term]:
    if not DAY_ONE * DAY <= micros < (_LAST + 1) * DAY:
        return []
    moment = datetime(1970, 1, 1) + timedelta(microseconds=micros)  # noqa: DTZ001  in UTC
    text = moment.isoformat(" ")
    forms = [f"TIMESTAMP '{text}'", f"'{text}'", f"'{moment.isoformat()}Z'"]
    if abs(micros) < _LAST // 2 * DAY:
        east = (moment + timedelta(hours=2)).isoformat(" ")
        forms.append(f"TIMESTAMP '{east}+02:00'")
    found = [constant(form, "timestamp", micros) for form in forms]
    if micros % DAY == 0:
        found.append(constant(f"DATE '{text[:10]}'", "date", micros // DAY))
    return found
