"""Deletion vectors, written by hand: none of the engines in the development environment does."""

from __future__ import annotations

import struct
import uuid
import zlib
from pathlib import Path
from typing import Any

import orjson
from pyroaring import BitMap64

_MAGIC = 1681511377
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def delete_rows(table: Path, version: int, path: str, rows: list[int]) -> None:
    """Commit, as a version, that rows of a file are deleted in place.

    Args:
        table: The table's directory.
        version: The next version.
        path: A file without deletion vector, as the log names it.
        rows: Positions in the file.
    """
    add = _added(table, path)
    stats = orjson.loads(add["stats"])
    removed: dict[str, Any] = {k: add[k] for k in ("path", "partitionValues", "size") if k in add}
    added: dict[str, Any] = {
        **add,
        "dataChange": True,
        "stats": orjson.dumps({**stats, "tightBounds": False}).decode(),
        "deletionVector": write_vector(table, rows),
    }
    features = ["deletionVectors"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": 1_800_000_000_000 + version, "operation": "DELETE"}},
        {"protocol": protocol},
        {"remove": {**removed, "deletionTimestamp": 1_800_000_000_000, "dataChange": True}},
        {"add": added},
    ]
    target = table / "_delta_log" / f"{version:020d}.json"
    target.write_bytes(b"\n".join(map(orjson.dumps, actions)) + b"\n")


def _added(table: Path, path: str) -> dict[str, Any]:
    for log in sorted((table / "_delta_log").glob("*.json")):
        for line in map(orjson.loads, log.read_bytes().splitlines()):
            if line.get("add", {}).get("path") == path:
                found: dict[str, Any] = line["add"]
                return found
    raise AssertionError(path)


def write_vector(table: Path, rows: list[int]) -> dict[str, Any]:
    """Write a vector of these rows below a table; its descriptor."""
    name = uuid.uuid4()
    data = struct.pack("<i", _MAGIC) + BitMap64(rows).serialize()
    body = b"\x01" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (table / f"deletion_vector_{name}.bin").write_bytes(body)
    return {
        "storageType": "u",
        "pathOrInlineDv": _z85(name.bytes),
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }


def _z85(data: bytes) -> str:
    out = []
    for (word,) in struct.iter_unpack(">I", data):
        digits = [word // 85**power % 85 for power in range(4, -1, -1)]
        out += [_Z85[digit] for digit in digits]
    return "".join(out)
