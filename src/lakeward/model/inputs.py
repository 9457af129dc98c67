"""Inputs that were consumed: files of a landing directory, versions of a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file outside the lake, by its full name."""

    path: str
    size: int
    modified_ms: int
    checksum: str
    """The name of the hash function, a colon, and the hash."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position up to which a table or a stream was read."""

    table_id: int
    """The id of the table; 0 for a stream."""
    version: int
    """The last version, or batch, that was read."""
    transaction_id: str
    """The transaction that read the version; its own commits do not count as new."""
    reader: str | None = None
    """The id of the Spark query that numbers a stream's batches, if it is known."""
