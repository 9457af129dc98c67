"""Converts paths, partition values and statistics to and from Delta's text forms."""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

import orjson

from lakeward.formats.delta.schema import physical_name
from lakeward.model.calendar import day_text, moment_text, parse_day, parse_moment
from lakeward.model.file import DataFile
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Field, Primitive
from lakeward.model.values import (
    Value,
    float_text,
    from_neutral,
    single,
    single_text,
    to_neutral,
)

_Id = TypeVar("_Id", int, str)
_MS: Final = 1000
_DAY_MS: Final = 24 * 3600 * 1000
_EPOCH: Final = date(1970, 1, 1)
# Microseconds since 1970 of the first and the last instant of the years with four digits.
_FIRST: Final = (date.min - _EPOCH).days * _DAY_MS * _MS
_LAST: Final = ((date.max - _EPOCH).days + 1) * _DAY_MS * _MS - 1
_SAFE: Final = "/:@!$&'()*+,;=~-._"
_PLAIN_PATH: Final = re.compile(rf"[A-Za-z0-9{re.escape(_SAFE)}]+")


def encode_path(path: str) -> str:
    """Return a file's path as a URI for the log."""
    return path if _PLAIN_PATH.fullmatch(path) else quote(path, safe=_SAFE)


def written_path(file: DataFile) -> str:
    """Return a file's path exactly as it is in the Delta log.

    Readers identify files by this text, so an adopted file is removed by its writer's text, which
    `extra` has if it differs from `encode_path`.
    """
    return log_path(file.path, file.extra)


def log_path(path: str, extra: Mapping[str, Any] | None) -> str:
    """Return the path of a file in the Delta log, given its path and `extra`."""
    kept = extra.get("path") if extra else None
    return str(kept) if kept else encode_path(path)


def file_path(path: str) -> str:
    """Return the path of a file in a foreign log: relative to the table, or absolute.

    Raises `ValueError` if it is empty or invalid, or leads out of the table.
    """
    local = path.startswith("file:")
    found = unquote(path, errors="strict") if "%" in path else path
    if local:
        rest = found.removeprefix("file:")
        found = "/" + rest.removeprefix("//").partition("/")[2] if rest.startswith("//") else rest
    if not found or "\0" in found or (".." in found and ".." in found.split("/")):
        message = f"the path {path!r} leads out of the table or nowhere"
        raise ValueError(message)
    return found


def vector_id(descriptor: Mapping[str, Any] | None) -> str | None:
    """Return the id of a deletion vector, unique among those of a file; None without a vector."""
    if descriptor is None:
        return None
    offset = descriptor.get("offset")
    place = f"{descriptor['storageType']}{descriptor['pathOrInlineDv']}"
    return place if offset is None else f"{place}@{offset}"


def partition_values(file: DataFile, schema: Schema) -> dict[str, str | None]:
    """Return the `partitionValues` of a file."""
    out: dict[str, str | None] = {}
    for field_id, value in sorted(schema.current_values(file.partition).items()):
        field = schema.by_id.get(field_id)
        if field is not None:  # a file that was removed may be older than the schema
            out[physical_name(field)] = partition_text(field, value)
    return out


def partition_text(field: Field, value: Value) -> str | None:
    """Return one partition value as Delta's text; None for null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    name = field.type.name if isinstance(field.type, Primitive) else ""
    if name == "date":
        return day_text(int(value))
    if name.startswith("timestamp"):
        return moment_text(int(value))
    if name == "binary":
        return str(from_neutral(field.type, value).decode(errors="backslashreplace"))
    if isinstance(value, float):
        return single_text(value) if name == "float" else float_text(value)
    return str(value)


def partition_value(field: Field, text: str | None) -> Value:
    """Return the value of a text in `partitionValues`; null and empty are the same in Delta.

    Raises `ValueError` if the text is no value of the field's type.
    """
    if text is None or text == "":
        return None
    kind = field.type
    if isinstance(kind, Decimal):
        exact = decimal.Context(prec=100, traps=[decimal.InvalidOperation, decimal.Inexact])
        quantum = decimal.Decimal((0, (1,), -kind.scale))
        return f"{decimal.Decimal(text, exact).quantize(quantum, context=exact):f}"
    name = kind.name if isinstance(kind, Primitive) else ""
    if name.startswith("int"):
        return int(text)
    if name == "boolean":
        return {"true": True, "false": False}[text.lower()]
    if name == "date":
        return parse_day(text)
    if name.startswith("timestamp"):
        return parse_moment(text)
    if name == "binary":
        return to_neutral(kind, text.encode())
    if name == "float":
        return single(float(text))
    if name == "double":
        return float(text)
    return text


def stats_json(file: DataFile, schema: Schema) -> str | None:
    """Return the `stats` text of a file; bounds are never too narrow."""
    if file.rows is None:
        return None
    out: dict[str, Any] = {"numRecords": file.rows}
    stats = file.stats
    if stats is not None:
        converters = _converters(schema)
        out["minValues"] = _bounds(stats.minimum, converters, up=False)
        out["maxValues"] = _bounds(stats.maximum, converters, up=True)
        out["nullCount"] = {converters[i][0]: n for i, n in stats.nulls.items() if i in converters}
        if not stats.tight or file.deletion_vector is not None:
            out["tightBounds"] = False
    return orjson.dumps(out).decode()


def stats_text(text: str, rows: int | None, schema: Schema, *, has_vector: bool) -> str | None:
    """Return the `stats` text of a file, from its text of `FileStats.to_json`."""
    if rows is None:
        return None
    source, converters = orjson.loads(text), _converters_by_text(schema)
    out: dict[str, Any] = {
        "numRecords": rows,
        "minValues": _bounds(source["min"], converters, up=False),
        "maxValues": _bounds(source["max"], converters, up=True),
        "nullCount": {converters[i][0]: n for i, n in source["nulls"].items() if i in converters},
    }
    if has_vector or source.get("loose"):
        out["tightBounds"] = False
    return orjson.dumps(out).decode()


def unconverted_names(schema: Schema) -> dict[int, str] | None:
    """Return column names by field id, if the log's text of every bound is also Delta's.

    Returns None if the text of a bound differs, or a name could be mistaken for a field id.
    """
    converters = _converters(schema)
    if any(convert is not None or name.isdigit() for name, convert in converters.values()):
        return None
    return {i: name for i, (name, _) in converters.items()}


_Convert = Callable[[Value, bool], Any]


@lru_cache(maxsize=256)
def _converters(schema: Schema) -> dict[int, tuple[str, _Convert | None]]:
    """Return, by field id, the name in statistics, and the converter of bounds that need one."""
    return {i: (physical_name(f), _converter(f)) for i, f in schema.by_id.items()}


@lru_cache(maxsize=256)
def _converters_by_text(schema: Schema) -> dict[str, tuple[str, _Convert | None]]:
    """Return `_converters` with field ids as texts."""
    return {str(i): converter for i, converter in _converters(schema).items()}


def _converter(field: Field) -> _Convert | None:
    kind = field.type
    if isinstance(kind, Decimal):
        return lambda value, _: orjson.Fragment(str(value).encode())
    name = kind.name if isinstance(kind, Primitive) else ""
    if name == "boolean":
        return lambda _, __: None
    if name == "date":
        return lambda value, _: from_neutral(kind, value).isoformat()
    if name.startswith("timestamp"):
        zone = "" if name.endswith("ntz") else "Z"
        return lambda value, up: _timestamp(int(value), zone, up=up)  # type: ignore[arg-type]
    return None


def _bounds(
    source: Mapping[_Id, Value], converters: Mapping[_Id, tuple[str, _Convert | None]], *, up: bool
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field_id, value in source.items():
        known = converters.get(field_id)
        if known is None or value is None:
            continue
        name, convert = known
        if convert is None:
            out[name] = value
            continue
        try:
            text = convert(value, up)
        except OverflowError:
            continue
        if text is not None:
            out[name] = text
    return out


def _timestamp(value: int, zone: str, *, up: bool) -> str:
    """Return a timestamp in whole milliseconds, the precision of readers, rounded outwards."""
    if not _FIRST <= value <= _LAST:
        message = f"{value} is beyond all calendars"
        raise OverflowError(message)
    units = -(-value // _MS) if up else value // _MS
    days, rest = divmod(units, _DAY_MS)
    seconds, fraction = divmod(rest, _MS)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{_day(days)}T{hour:02}:{minute:02}:{second:02}.{fraction:03}{zone}"


@lru_cache(maxsize=4096)
def _day(days: int) -> str:
    """Return the date that is `days` days after 1970-01-01."""
    return (_EPOCH + timedelta(days=days)).isoformat()
