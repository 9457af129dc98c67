"""Names and addresses of deletion vectors.

A descriptor of storage type `u` refers to its file by a UUID and a directory relative to the table;
one of type `p` has the full address.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from lakeward.formats.delta.values import file_path

_UUID_LENGTH: Final = 20
_FILE: Final = re.compile(r"deletion_vector_([0-9a-f-]{36})\.bin")
_MARK: Final = 10
"""The number of bytes of a file's UUID that identify its transaction; the others are random."""
_ILLEGAL: Final = re.compile(r'[\x00-\x20"#%<>?\[\\\]^`{|}\x7f]')
_Z85: Final = (
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)


def address(path: str, root: str, *, as_spark: bool = True) -> str:
    """Return the full address of a file below `root`, or of an absolute path, as a URL.

    Only characters that a URL cannot have are escaped. Spark compares addresses of files that get a
    deletion vector as text with its own, which have one slash after `file:`; delta-rs can replace
    only files whose addresses have three. `as_spark` chooses Spark's form.
    """
    full = path if path.startswith("/") or "://" in path else f"{root}/{path}"
    place = escaped(full)
    scheme = "file:" if as_spark else "file://"
    return f"{scheme}{place}" if place.startswith("/") else place


def escaped(name: str) -> str:
    """Return a full path with the characters escaped that a URL cannot have."""
    return _ILLEGAL.sub(lambda found: quote(found[0], safe=""), name)


def absolute_vector(vector: Mapping[str, Any] | None, root: str) -> dict[str, Any] | None:
    """Return a deletion vector's descriptor with the full address of its file."""
    if vector is None or vector["storageType"] != "u":
        return None if vector is None else dict(vector)
    place = address(vector_file(vector), root)
    return {**vector, "storageType": "p", "pathOrInlineDv": place}


def moved_vector(vector: Mapping[str, Any] | None, directory: str) -> dict[str, Any] | None:
    """Return the descriptor, for the table's log, of a vector that was written on a branch."""
    if vector is None or vector["storageType"] != "u":
        return None if vector is None else dict(vector)
    text = str(vector["pathOrInlineDv"])
    prefix, name = text[:-_UUID_LENGTH], text[-_UUID_LENGTH:]
    place = f"{directory}/{prefix}" if prefix else directory
    return {**vector, "pathOrInlineDv": f"{place}{name}"}


def vector_file(vector: Mapping[str, Any]) -> str:
    """Return the path of a vector's file, relative to the table."""
    text = str(vector["pathOrInlineDv"])
    prefix, encoded = text[:-_UUID_LENGTH], text[-_UUID_LENGTH:]
    name = file_name(uuid.UUID(bytes=decoded(encoded)))
    return f"{prefix}/{name}" if prefix else name


def vector_path(vector: Mapping[str, Any]) -> str | None:
    """Return the path of a vector's file in the table's log; None for an inline vector."""
    match vector.get("storageType"):
        case "u":
            return vector_file(vector)
        case "p":
            return file_path(str(vector["pathOrInlineDv"]))
        case _:
            return None


def new_name(transaction_id: str) -> uuid.UUID:
    """Return a name for a new file of vectors, by which `is_of` recognises the transaction."""
    return uuid.UUID(bytes=_mark(transaction_id) + secrets.token_bytes(16 - _MARK))


def file_name(name: uuid.UUID) -> str:
    """Return the file name of a file of vectors."""
    return f"deletion_vector_{name}.bin"


def is_of(path: str, transaction_ids: Iterable[str]) -> bool:
    """Return whether one of the given transactions wrote a file of vectors."""
    found = _FILE.fullmatch(path.rpartition("/")[2])
    if found is None:
        return False
    mark = bytes.fromhex(found[1].replace("-", ""))[:_MARK]
    return any(_mark(i) == mark for i in transaction_ids)


def marks(transaction_ids: Iterable[str]) -> dict[bytes, str]:
    """Return transaction ids by the bytes that stand for them in names of vector files."""
    return {_mark(i): i for i in transaction_ids}


def mark_in(path: str) -> bytes | None:
    """Return the bytes in a vector file's name that identify its transaction; None for others."""
    found = _FILE.fullmatch(path.rpartition("/")[2])
    return bytes.fromhex(found[1].replace("-", ""))[:_MARK] if found else None


def named(name: uuid.UUID) -> str:
    """Return the name of a file of vectors as a descriptor has it, in Z85."""
    out = []
    for start in range(0, 16, 4):
        word = int.from_bytes(name.bytes[start : start + 4], "big")
        out += [_Z85[word // 85**power % 85] for power in range(4, -1, -1)]
    return "".join(out)


def decoded(text: str) -> bytes:
    """Return the bytes of a text in Z85."""
    out = bytearray()
    for start in range(0, len(text), 5):
        value = 0
        for character in text[start : start + 5]:
            value = value * 85 + _Z85.index(character)
        out += value.to_bytes(4, "big")
    return bytes(out)


def _mark(transaction_id: str) -> bytes:
    return hashlib.sha256(transaction_id.encode()).digest()[:_MARK]
