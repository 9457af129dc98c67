"""Partition values and statistics as Delta spells them."""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote

import orjson

from lakeward.formats.delta.schema import physical_name
from lakeward.model.file import DataFile
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Field, Primitive
from lakeward.model.values import Value, from_neutral, to_neutral

_MS: Final = 1000
_SAFE: Final = "/:@!$&'()*+,;=~-._"
_PLAIN_PATH: Final = re.compile(rf"[A-Za-z0-9{re.escape(_SAFE)}]+")


def encode_path(path: str) -> str:
    """A file's path as the log's URI."""
    return path if _PLAIN_PATH.fullmatch(path) else quote(path, safe=_SAFE)


def written_path(file: DataFile) -> str:
    """A file's path exactly as the log spells it.

    Readers tell files apart by this spelling, so an adopted file is removed under the one that its
    own writer chose, which `extra` holds where it is not ours.
    """
    kept = file.extra.get("path") if file.extra else None
    return str(kept) if kept else encode_path(file.path)


def decode_path(path: str) -> str:
    """The path of the log's URI."""
    return unquote(path)


def file_path(path: str) -> str:
    """The path of a file that somebody's log names: below the table, or absolute.

    Raises:
        ValueError: It is no path, or climbs out of the table.
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
    """What tells one deletion vector of a file from another; None for a file without one."""
    if descriptor is None:
        return None
    offset = descriptor.get("offset")
    place = f"{descriptor['storageType']}{descriptor['pathOrInlineDv']}"
    return place if offset is None else f"{place}@{offset}"


def partition_values(file: DataFile, schema: Schema) -> dict[str, str | None]:
    """Delta's `partitionValues`."""
    out: dict[str, str | None] = {}
    for field_id, value in sorted(file.partition.items()):
        field = schema.by_id.get(field_id)
        if field is not None:  # a file that was removed may be older than the schema
            out[physical_name(field)] = partition_text(field, value)
    return out


def partition_text(field: Field, value: Value) -> str | None:
    """One partition value as Delta's text; missing stays missing."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    name = field.type.name if isinstance(field.type, Primitive) else ""
    if name == "date":
        return str(from_neutral(field.type, value).isoformat())
    if name.startswith("timestamp"):
        moment = from_neutral(field.type, value).replace(tzinfo=None)
        return str(moment.isoformat(sep=" ", timespec="microseconds"))
    if name == "binary":
        return str(from_neutral(field.type, value).decode(errors="backslashreplace"))
    return str(value)


def partition_value(field: Field, text: str | None) -> Value:
    """The value that a text in `partitionValues` means; missing and empty are the same in Delta.

    Raises:
        ValueError: The text is no value of the field's type.
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
        return to_neutral(kind, date.fromisoformat(text))
    if name.startswith("timestamp"):
        moment = datetime.fromisoformat(text)
        return to_neutral(kind, moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    if name == "binary":
        return to_neutral(kind, text.encode())
    if name in ("float", "double"):
        return float(text)
    return text


def stats_json(file: DataFile, schema: Schema) -> str | None:
    """Delta's `stats` text. Bounds are outer bounds for every reader."""
    if file.rows is None:
        return None
    out: dict[str, Any] = {"numRecords": file.rows}
    stats = file.stats
    if stats is not None:
        spellings = _spellings(schema)
        out["minValues"] = _bounds(stats.minimum, spellings, up=False)
        out["maxValues"] = _bounds(stats.maximum, spellings, up=True)
        out["nullCount"] = {spellings[i][0]: n for i, n in stats.nulls.items() if i in spellings}
        if not stats.tight or file.deletion_vector is not None:
            out["tightBounds"] = False
    return orjson.dumps(out).decode()


_Spell = Callable[[Value, bool], Any]


@lru_cache(maxsize=256)
def _spellings(schema: Schema) -> dict[int, tuple[str, _Spell | None]]:
    """By field id: the name in statistics, and how bounds are spelled where not as they are.

    A checkpoint spells the statistics of every file, so what depends on the schema alone is found
    out once.
    """
    return {i: (physical_name(f), _spelling(f)) for i, f in schema.by_id.items()}


def _spelling(field: Field) -> _Spell | None:
    kind = field.type
    if isinstance(kind, Decimal):
        return lambda value, _: orjson.Fragment(str(value).encode())
    name = kind.name if isinstance(kind, Primitive) else ""
    if name == "boolean":
        return lambda _, __: None
    if name == "date":
        return lambda value, _: from_neutral(kind, value).isoformat()
    if name.startswith("timestamp"):
        return lambda value, up: _timestamp(field, int(str(value)), up=up)
    return None


def _bounds(
    source: Mapping[int, Value], spellings: Mapping[int, tuple[str, _Spell | None]], *, up: bool
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field_id, value in source.items():
        known = spellings.get(field_id)
        if known is None or value is None:
            continue
        name, spell = known
        if spell is None:
            out[name] = value
            continue
        try:
            text = spell(value, up)
        except OverflowError:
            continue
        if text is not None:
            out[name] = text
    return out


def _timestamp(field: Field, value: int, *, up: bool) -> str:
    """Whole milliseconds, because that is what readers keep: rounded outwards."""
    moment = from_neutral(field.type, value)
    rest = value % _MS
    if rest:
        moment += timedelta(microseconds=(_MS - rest) if up else -rest)
    text = moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return text if str(field.type).endswith("ntz") else f"{text}Z"
