"""Finds the positions of columns among the leaves of a Parquet file.

A leaf is named by its path, with dots. So the path of member `b` of a struct `a` is also the name
of a column `a.b`, and a path does not tell which of them a leaf is.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq


def leaf_positions(schema: pa.Schema) -> dict[str, int]:
    """Return the positions of the columns that are one leaf, by their names."""
    found, position = {}, 0
    for field in schema:
        if not pa.types.is_nested(_storage(field.type)):
            found[field.name] = position
        position += _leaves(field.type)
    return found


def positions_in_file(metadata: pq.FileMetaData, names: Iterable[str]) -> dict[str, int]:
    """Return the positions of the named columns that are one leaf of a file, by their names."""
    columns = metadata.schema
    paths = {columns.column(n).path: n for n in range(metadata.num_columns)}
    plain = {name: paths[name] for name in names if name in paths and "." not in name}
    dotted = [name for name in names if name in paths and "." in name]
    if not dotted:
        return plain
    try:
        schema = columns.to_arrow_schema()
    except pa.ArrowException:
        return plain
    if sum(_leaves(field.type) for field in schema) != metadata.num_columns:
        return plain
    known = leaf_positions(schema)
    return plain | {name: known[name] for name in dotted if name in known}


def _leaves(kind: pa.DataType) -> int:
    stored = _storage(kind)
    if not pa.types.is_nested(stored):
        return 1
    return sum(_leaves(stored.field(n).type) for n in range(stored.num_fields))


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
