"""What somebody took in: files of a landing directory, versions of a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file outside the lake.

    Attributes:
        path: Its full name.
        size: In bytes.
        modified_ms: When it was written.
        checksum: Of its bytes, with the name of the function before a colon.
    """

    path: str
    size: int
    modified_ms: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a table or a stream was read.

    Attributes:
        table_id: The table; 0 for a stream.
        version: The version that was read, or the batch; what came later is new.
        transaction_id: The transaction that read it, whose own changes are not new either.
        reader: Of a stream, the id of the Spark query that numbers the batches, if it is known.
    """

    table_id: int
    version: int
    transaction_id: str
    reader: str | None = None
