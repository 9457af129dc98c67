"""Rewrites the full addresses in Delta logs after the warehouse was moved.

Clones and branches refer to files of other directories by full addresses. Only addresses below the
warehouse's old location change; every other action stays the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Moved = Callable[[str], str]
_ACTIONS: Final = ("add", "remove", "cdc")
_VECTOR: Final = "deletionVector"
_NAMES: Final = ("path", "pathOrInlineDv")


def moved_commit(data: bytes, moved: Moved) -> bytes:
    """Return the bytes of a published commit with the new addresses of its files."""
    return b"\n".join(_line(line, moved) for line in data.split(b"\n"))


def moved_checkpoint(data: bytes, moved: Moved) -> bytes:
    """Return the bytes of a checkpoint, or of a sidecar, with the new addresses of its files."""
    table = pq.read_table(pa.BufferReader(data))
    changed = table
    for number, field in enumerate(table.schema):
        if field.name in _ACTIONS and pa.types.is_struct(field.type):
            column = _struct(table.column(number).combine_chunks(), moved)
            changed = changed.set_column(number, field.with_type(column.type), column)
    if changed.to_pydict() == table.to_pydict():
        return data
    out = pa.BufferOutputStream()
    pq.write_table(changed, out)
    return bytes(out.getvalue())


def moved_vector(descriptor: dict[str, Any], moved: Moved) -> dict[str, Any]:
    """Return a deletion vector's descriptor with the new address of its file."""
    if descriptor.get("storageType") != "p":
        return descriptor
    return {**descriptor, "pathOrInlineDv": moved(descriptor["pathOrInlineDv"])}


def _line(line: bytes, moved: Moved) -> bytes:
    if not line.strip():
        return line
    action = orjson.loads(line)
    found = next((action[kind] for kind in _ACTIONS if action.get(kind)), None)
    if found is None:
        return line
    new = {**found, "path": moved(found["path"])}
    if new.get(_VECTOR):
        new[_VECTOR] = moved_vector(new[_VECTOR], moved)
    if new == found:
        return line
    return orjson.dumps({kind: new if action[kind] is found else action[kind] for kind in action})


def _struct(array: pa.StructArray, moved: Moved) -> pa.StructArray:
    """Return the structs with new addresses; all their fields become nullable."""
    children = []
    for number, field in enumerate(array.type):
        child = pc.struct_field(array, [number])
        if field.name in _NAMES:
            names = [None if p is None else moved(p) for p in child.to_pylist()]
            child = pa.array(names, field.type)
        elif field.name == _VECTOR and pa.types.is_struct(field.type):
            child = _struct(child, moved)
        children.append(child)
    fields = [
        f.with_nullable(True).with_type(c.type) for f, c in zip(array.type, children, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
