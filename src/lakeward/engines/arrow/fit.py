"""Converts the values of a column to the table's type, without loss.

The values decide whether they fit, not their type: whole numbers of any width fit any numeric
column that can hold each of them. A timestamp without a zone is read as UTC if the column has a
zone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.nested import compact, is_list, plain
from lakeward.engines.arrow.origin import place
from lakeward.errors import LakewardError, SchemaMismatch
from lakeward.model.types import (
    Decimal,
    Field,
    Ids,
    ListOf,
    MapOf,
    Primitive,
    Struct,
    Type,
    type_from_arrow,
)

_TESTS: Final = {
    "string": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "binary": (
        *(pa.types.is_binary, pa.types.is_large_binary),
        *(pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    ),
    "boolean": (pa.types.is_boolean,),
    "date": (pa.types.is_date,),
}
_WHOLE: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_GIVE: Final = {"string": "text", "boolean": "True or False", "binary": "bytes"}
_EXACT: Final = 2**53
_SHOWN: Final = 80


def fitted(
    column: pa.ChunkedArray, field: Field, target: pa.DataType, table: str, given: pa.Schema
) -> pa.ChunkedArray:
    """Return a column of data in the table's type; raise `SchemaMismatch` for the first misfit.

    Args:
        column: The values.
        field: The table's column.
        target: The Arrow type to return, with every part nullable: required values are checked
            afterwards, so that a null is reported as such.
        table: The table's name, for errors.
        given: The schema of the data, whose metadata tells where the rows come from.
    """
    if not fits(column.type, field.type):
        raise _wrong_type(column, field, table, given)
    column = plain(column)
    try:
        return _cast(column, target)
    except (pa.ArrowException, ValueError) as error:
        index = _first_misfit(column, target)
        if index is None and pa.types.is_nested(column.type):
            return _cast(compact(column), target)
        if index is None:
            raise _wrong_type(column, field, table, given) from error
        raise misfit(
            _shown(column[index]), field.type, field.name, table, place(given, index)
        ) from None


def fits(source: pa.DataType, kind: Type, *, inside: bool = False) -> bool:
    """Whether some values of an Arrow type fit a column; with `inside`, a nested part of one."""
    types = pa.types
    if types.is_dictionary(source):
        return fits(source.value_type, kind, inside=inside)
    if types.is_null(source):
        return True
    match kind:
        case Primitive(name):
            return _fits_primitive(source, name, inside=inside)
        case Decimal(precision, scale):
            if types.is_decimal(source) and inside:
                whole = source.precision - source.scale
                return bool(source.scale <= scale and whole <= precision - scale)
            return bool(types.is_decimal(source) or (types.is_integer(source) and not inside))
        case Struct(fields):
            if not types.is_struct(source):
                return False
            given = {f.name: f.type for f in source}
            return given.keys() <= {f.name for f in fields} and all(
                fits(given[f.name], f.type, inside=True) if f.name in given else may_lack(f)
                for f in fields
            )
        case ListOf(element):
            return is_list(source) and fits(source.value_type, element.type, inside=True)
        case MapOf(key, value):
            return bool(
                types.is_map(source)
                and fits(source.key_type, key.type, inside=True)
                and fits(source.item_type, value.type, inside=True)
            )


def may_lack(field: Field) -> bool:
    """Whether data may lack a column or a nested part: it has a default, or was added later."""
    return field.default is not None or (field.optional and field.nullable)


def misfit(
    shown: str,
    kind: Type,
    column: str,
    table: str,
    where: tuple[str, dict[str, Any]],
    rule: str | None = None,
) -> SchemaMismatch:
    """Return the error for one value that does not fit its column."""
    words, facts = where
    what = f"Column {column} of {table} is {kind}; {shown} in {words} does not fit it."
    hint = f"{rule or _rule(kind)} Nothing was written."
    return SchemaMismatch(what, hint=hint, table=table, column=column, value=shown, **facts)


def _fits_primitive(source: pa.DataType, name: str, *, inside: bool) -> bool:
    types = pa.types
    if name.startswith("timestamp"):
        # Without a zone it is taken as UTC; a wall clock has no place for a zone.
        return bool(types.is_timestamp(source) and (source.tz is None or "ntz" not in name))
    if name == "date" and types.is_timestamp(source):
        return source.tz is None and not inside
    if name in _TESTS:
        return any(test(source) for test in _TESTS[name])
    whole = types.is_integer(source)
    if name in _WHOLE:
        return bool(whole or types.is_floating(source) or types.is_decimal(source))
    if name == "float":
        return bool(whole or (types.is_floating(source) and (source != pa.float64() or not inside)))
    return bool(name == "double" and (whole or types.is_floating(source)))


def _cast(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    source, types = column.type, pa.types
    if types.is_float16(source):
        column, source = column.cast(pa.float32()), pa.float32()
    if types.is_decimal128(target) and types.is_integer(source):
        # By way of a type that holds every integer, whose values are then checked.
        column = column.cast(pa.decimal256(40, target.scale))
    found = column.cast(target)
    if (types.is_float64(source) and types.is_float32(target)) or (
        types.is_timestamp(source) and types.is_date(target)
    ):
        _check_same(column, found.cast(source))
    return found


def _check_same(before: pa.ChunkedArray, after: pa.ChunkedArray) -> None:
    """Raise `ValueError` if a conversion changed values, which Arrow does not detect."""
    same = pc.equal(before, after)
    if pa.types.is_floating(before.type):
        same = pc.or_(same, pc.is_nan(before))
    if pc.all(same, skip_nulls=True, min_count=0).as_py() is False:
        message = "values would change"
        raise ValueError(message)


def _first_misfit(column: pa.ChunkedArray, target: pa.DataType) -> int | None:
    """Return the position of the first value that cannot be converted; None if all can be."""
    start, count = 0, len(column)
    while count > 1:
        half = count // 2
        if _converts(column.slice(start, half), target):
            start, count = start + half, count - half
        else:
            count = half
    return None if not count or _converts(column.slice(start, 1), target) else start


def _converts(column: pa.ChunkedArray, target: pa.DataType) -> bool:
    try:
        _cast(compact(column), target)
    except (pa.ArrowException, ValueError):
        return False
    return True


def _wrong_type(
    column: pa.ChunkedArray, field: Field, table: str, given: pa.Schema
) -> SchemaMismatch:
    found, facts = _type_name(column.type), dict[str, Any]()
    what = f"Column {field.name} of {table} is {field.type}; the data has {found}"
    there = column.is_valid()
    index = pc.index(there, pa.scalar(value=True)).as_py()
    if index >= 0:
        words, facts = place(given, index)
        facts["value"] = _shown(column[index])
        what += f", such as {facts['value']} in {words}"
    return SchemaMismatch(
        f"{what}.",
        hint=_conversion(column.type, field.type),
        table=table,
        column=field.name,
        expected=str(field.type),
        found=str(column.type),
        **facts,
    )


def _conversion(source: pa.DataType, kind: Type) -> str:
    """Return a hint how to convert data of another type."""
    if pa.types.is_timestamp(source) and "ntz" in str(kind):
        return "The column has no zone: convert the data to a wall clock first, in UTC or locally."
    if isinstance(kind, Decimal) and pa.types.is_floating(source):
        return f"Binary fractions are not exact: convert the data to {kind} first."
    if isinstance(kind, Primitive):
        return f"Convert the data to {kind} first."
    return "Convert the data first."


def _rule(kind: Type) -> str:
    """Return a hint which values fit a type."""
    match kind:
        case Primitive(name) if name in _WHOLE:
            most = 2 ** (_WHOLE[name] - 1)
            return f"{name} holds whole numbers from {-most} to {most - 1}."
        case Primitive("double"):
            return f"double holds whole numbers exactly up to {_EXACT}."
        case Primitive("float"):
            return "float has 7 digits; convert the data to it first if rounding is fine."
        case Primitive("date"):
            return "Give a date, without a time of day."
        case Primitive(name) if name.startswith("timestamp"):
            unit = "milliseconds" if "_ms" in name else "microseconds"
            if name.endswith("ntz"):
                return f"Give a datetime without a zone, of {unit} at most."
            return f"Give a datetime, of {unit} at most; without a zone it is UTC."
        case Decimal(precision, scale):
            return f"{kind} has {precision - scale} digits before the point and {scale} after it."
        case Primitive(name) if name in _GIVE:
            return f"Give {_GIVE[name]}."
        case ListOf(element):
            return f"Give a list whose parts are of type {element.type}."
        case _:
            return "Convert the values first."


def _type_name(source: pa.DataType) -> str:
    """Return Lakeward's name of an Arrow type, or Arrow's if there is none."""
    if pa.types.is_null(source):
        return "no values"
    try:
        return str(type_from_arrow(source, Ids(), where=""))
    except LakewardError:
        return str(source)


def _shown(value: pa.Scalar) -> str:
    try:
        found = value.as_py()
    except (ValueError, OverflowError):
        # A moment beyond Python's calendar, of which str() would raise again.
        found = str(value.value) if _is_moment(value) else str(value)
    if hasattr(found, "isoformat"):
        found = found.isoformat(" ") if isinstance(found, datetime) else found.isoformat()
    return (
        repr(found)[:_SHOWN]
        if isinstance(found, str) and not _is_moment(value)
        else str(found)[:_SHOWN]
    )


def _is_moment(value: pa.Scalar) -> bool:
    return bool(pa.types.is_temporal(value.type))
