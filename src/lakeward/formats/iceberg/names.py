"""Name mappings, for files whose columns have no field ids.

Iceberg identifies a file's columns by their ids. A file without ids is read by the table's name
mapping. So the mapping gets the names of every such file before the table lists the file. Names
stay in it when columns are renamed or dropped, because older files still have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from lakeward.errors import SchemaMismatch
from lakeward.formats.iceberg.extra import pyiceberg
from lakeward.model.file import DataFile

NAME_MAPPING: Final = "schema.name-mapping.default"
"""The table property of the mapping; only published metadata has it, not the definition."""
UNNUMBERED: Final = "unnumbered"
"""The key, in a file's `extra`, of the name mapping of its columns, which have no ids.

Older versions of Lakeward wrote `True` there.
"""
Mapped: TypeAlias = Sequence[Mapping[str, Any]]
"""A name mapping, or the part of one below a field, as Iceberg's JSON."""


def with_mapping(
    properties: Mapping[str, str], schema: Mapping[str, Any], added: Iterable[DataFile]
) -> dict[str, str]:
    """Return properties with a name mapping that has the names of all columns of added files.

    Raise `SchemaMismatch` if a name belongs to another column in the mapping.
    """
    unnumbered = [f for f in added if f.extra and UNNUMBERED in f.extra]
    if not unnumbered:
        return dict(properties)
    text = properties.get(NAME_MAPPING)
    if text is None:
        parsed = pyiceberg("schema").Schema.model_validate_json(orjson.dumps(schema))
        made = pyiceberg("table.name_mapping").create_mapping_from_schema(parsed)
        text = made.model_dump_json()
    return {**properties, NAME_MAPPING: merged_mapping(text, unnumbered)}


def merged_mapping(text: str, files: Iterable[DataFile]) -> str:
    """Return a name mapping with the names of the columns of files without ids.

    Raise `SchemaMismatch` if a name belongs to another column in the mapping.
    """
    known: Mapped = orjson.loads(text)
    merged = known
    for file in files:
        more = (file.extra or {}).get(UNNUMBERED)
        if isinstance(more, list):
            merged = _merged(merged, more, file.path)
    return text if merged == known else orjson.dumps(merged).decode()


def parse_mapping(text: str) -> dict[tuple[str, ...], int]:
    """Return field ids by the paths of names in a name mapping; raise `ValueError` if malformed."""
    out: dict[tuple[str, ...], int] = {}
    _collect(orjson.loads(text), (), out)
    return out


def _collect(source: Any, path: tuple[str, ...], out: dict[tuple[str, ...], int]) -> None:
    for part in source:
        for name in part.get("names") or ():
            if part.get("field-id") is not None:
                out[*path, name] = int(part["field-id"])
            _collect(part.get("fields") or (), (*path, name), out)


def _merged(known: Mapped, more: Mapped, path: str) -> Mapped:
    out = [dict(part) for part in known]
    for part in more:
        number, (name,) = part["field-id"], part["names"]
        same = None
        for other in out:
            if other.get("field-id") == number:
                same = other
            elif name in (other.get("names") or ()):
                what = f"Column {name!r} of file {path!r} has no field id."
                hint = (
                    "In older files without ids the name belongs to another column, which was"
                    " renamed or dropped since. Append the rows instead: tx.append(table, paths)."
                )
                raise SchemaMismatch(what, hint=hint, column=name, path=path)
        if same is None:
            out.append(dict(part))
            continue
        names = same.get("names") or []
        same["names"] = names if name in names else [*names, name]
        below = _merged(same.get("fields") or (), part.get("fields") or (), path)
        if below:
            same["fields"] = below
    return out
