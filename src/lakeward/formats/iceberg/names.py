"""Name mappings, for files whose columns have no field ids.

Iceberg finds a file's columns by their ids. A file without ids is read by the table's name mapping,
so the table gets one before it lists such a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from lakeward.formats.iceberg.extra import pyiceberg
from lakeward.model.file import DataFile

NAME_MAPPING: Final = "schema.name-mapping.default"
"""The table property; it belongs to the published metadata, not to the table's definition."""
UNNUMBERED: Final = "unnumbered"
"""The key of a file's `extra` that says that its columns have no ids."""


def with_mapping(
    properties: Mapping[str, str], schema: Mapping[str, Any], added: Iterable[DataFile]
) -> dict[str, str]:
    """Table properties with the name mapping that added files need; an older one stays."""
    if NAME_MAPPING in properties or not any(f.extra and UNNUMBERED in f.extra for f in added):
        return dict(properties)
    parsed = pyiceberg("schema").Schema.model_validate_json(orjson.dumps(schema))
    mapping = pyiceberg("table.name_mapping").create_mapping_from_schema(parsed)
    return {**properties, NAME_MAPPING: mapping.model_dump_json()}


def parse_mapping(text: str) -> dict[tuple[str, ...], int]:
    """Field ids by the paths of their names in a name mapping. Raises `ValueError`."""
    out: dict[tuple[str, ...], int] = {}
    _collect(orjson.loads(text), (), out)
    return out


def _collect(source: Any, path: tuple[str, ...], out: dict[tuple[str, ...], int]) -> None:
    for part in source:
        for name in part.get("names") or ():
            if part.get("field-id") is not None:
                out[*path, name] = int(part["field-id"])
            _collect(part.get("fields") or (), (*path, name), out)
