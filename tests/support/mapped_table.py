"""A Delta table with mapped columns, as another engine leaves it: old names in its first file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.delta_log import Log, add, column

FEATURES: Final = ["columnMapping", "deletionVectors"]
_WRITER: Final = [*FEATURES, "changeDataFeed", "checkConstraints", "invariants"]
IDS: Final = {"id": 12, "note": 3, "p": 5, "part": 9, "part.x": 2, "list": 4, "list.k": 1, "map": 8}
"""The ids in files, which are others than the lake's own."""
MAX_ID: Final = 20
"""The highest id that the table ever used: columns were dropped."""
FIRST_ROWS: Final[list[dict[str, Any]]] = [
    {"id": 1, "note": "a", "p": "u", "part": {"x": 1}, "list": [{"k": "1"}], "map": [("m", 1)]},
    {"id": 2, "note": None, "p": "u", "part": None, "list": None, "map": None},
    {"id": 3, "note": "c", "p": "u", "part": {"x": None}, "list": [None], "map": []},
]
SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("note", pa.string()),
        ("p", pa.string()),
        ("part", pa.struct([("x", pa.int64())])),
        ("list", pa.list_(pa.struct([("k", pa.string())]))),
        ("map", pa.map_(pa.string(), pa.int64())),
    ]
)


def stored_name(name: str) -> str:
    """The name of a column in files."""
    return f"col-{IDS[name]}"


def mapped_table(
    where: Path, mode: str, settings: Mapping[str, str] | None = None, *, odd_names: bool = False
) -> Path:
    """Make a table partitioned by `p`, with a file of the partition `u`.

    With `odd_names` that file has names that nobody knows: only the ids tell the columns.
    """
    log = Log(where)
    rows = _stored_rows(odd_names=odd_names)
    pq.write_table(rows, where / "first.parquet")
    mapping = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": str(MAX_ID)}
    stats = {
        "numRecords": 3,
        "minValues": {stored_name("id"): 1},
        "maxValues": {stored_name("id"): 3},
        "nullCount": {stored_name("id"): 0},
    }
    log.commit(
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": FEATURES,
                "writerFeatures": _WRITER,
            }
        },
        {
            "metaData": {
                "id": "0f9f5a5e-7d4c-4f3a-9a53-0b9f5c1f7a11",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": _fields()}),
                "partitionColumns": ["p"],
                "configuration": {**mapping, **(settings or {})},
                "createdTime": 1_600_000_000_000,
            }
        },
        {
            "add": add(
                "first.parquet",
                size=(where / "first.parquet").stat().st_size,
                partitionValues={stored_name("p"): "u"},
                stats=json.dumps(stats),
            )
        },
    )
    return where


def _fields() -> list[dict[str, Any]]:
    part = {"type": "struct", "fields": [_field("x", "long", "part.x")]}
    item = {"type": "struct", "fields": [_field("k", "string", "list.k")]}
    listed = {"type": "array", "elementType": item, "containsNull": True}
    pairs = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
    return [
        _field("id", "long", "id"),
        _field("note", "string", "note"),
        _field("p", "string", "p"),
        _field("part", part, "part"),
        _field("list", listed, "list"),
        _field("map", pairs, "map"),
    ]


def _field(name: str, kind: Any, path: str) -> dict[str, Any]:
    marks = {
        "delta.columnMapping.id": IDS[path],
        "delta.columnMapping.physicalName": stored_name(path),
    }
    return column(name, kind, **marks)


def _stored_rows(*, odd_names: bool) -> pa.Table:
    def field(path: str, kind: pa.DataType) -> pa.Field:
        name = f"old-{IDS[path]}" if odd_names else stored_name(path)
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(IDS[path])})

    schema = pa.schema(
        [
            field("id", pa.int64()),
            field("note", pa.string()),
            field("part", pa.struct([field("part.x", pa.int64())])),
            field("list", pa.list_(pa.struct([field("list.k", pa.string())]))),
            field("map", pa.map_(pa.string(), pa.int64())),
        ]
    )
    names = ("id", "note", "part", "list", "map")
    columns = []
    for name, kind in zip(names, schema.types, strict=True):
        columns.append(pa.array([_renamed(r[name], kind) for r in FIRST_ROWS], kind))
    return pa.Table.from_arrays(columns, schema=schema)


def _renamed(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind) and value is not None:
        return {kind.field(0).name: next(iter(value.values()))}
    if pa.types.is_list(kind) and value is not None:
        return [_renamed(v, kind.value_type) for v in value]
    return value
