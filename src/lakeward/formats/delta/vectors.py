"""Where deletion vectors lie, and how a log says so.

A descriptor of the storage type `u` names its file by a UUID and a directory below the table, so it
means another file when it is read in another place; one of type `p` names it by its full address.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

_UUID_LENGTH: Final = 20
_ILLEGAL: Final = re.compile(r'[\x00-\x20"#%<>?\[\\\]^`{|}\x7f]')
_Z85: Final = (
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)


def address(path: str, root: str, *, as_spark: bool = True) -> str:
    """The full address of a file, as a URL.

    Only what a URL cannot hold is escaped. Spark compares addresses of files that get a deletion
    vector letter by letter with its own, which have one slash after `file:`; delta-rs can replace
    only files whose addresses have three.

    Args:
        path: Below the root, or absolute.
        root: A directory's full name, as storages give it.
        as_spark: Whether files of this machine get Spark's own spelling.
    """
    full = path if path.startswith("/") or "://" in path else f"{root}/{path}"
    place = _ILLEGAL.sub(lambda found: quote(found[0], safe=""), full)
    scheme = "file:" if as_spark else "file://"
    return f"{scheme}{place}" if place.startswith("/") else place


def absolute_vector(vector: Mapping[str, Any] | None, root: str) -> dict[str, Any] | None:
    """A deletion vector's descriptor that means the same wherever it is read."""
    if vector is None or vector["storageType"] != "u":
        return None if vector is None else dict(vector)
    place = address(vector_file(vector), root)
    return {**vector, "storageType": "p", "pathOrInlineDv": place}


def moved_vector(vector: Mapping[str, Any] | None, directory: str) -> dict[str, Any] | None:
    """The descriptor of a vector that was written on a copy, as the table's log names it."""
    if vector is None or vector["storageType"] != "u":
        return None if vector is None else dict(vector)
    text = str(vector["pathOrInlineDv"])
    prefix, name = text[:-_UUID_LENGTH], text[-_UUID_LENGTH:]
    place = f"{directory}/{prefix}" if prefix else directory
    return {**vector, "pathOrInlineDv": f"{place}{name}"}


def vector_file(vector: Mapping[str, Any]) -> str:
    """The file of a vector that is named below its table."""
    text = str(vector["pathOrInlineDv"])
    prefix, encoded = text[:-_UUID_LENGTH], text[-_UUID_LENGTH:]
    name = f"deletion_vector_{uuid.UUID(bytes=_z85(encoded))}.bin"
    return f"{prefix}/{name}" if prefix else name


def _z85(text: str) -> bytes:
    out = b""
    for start in range(0, len(text), 5):
        value = 0
        for character in text[start : start + 5]:
            value = value * 85 + _Z85.index(character)
        out += value.to_bytes(4, "big")
    return out
