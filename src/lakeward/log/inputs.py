"""Inputs of pipelines and streams, recorded by the transaction that consumed them."""

from __future__ import annotations

from collections.abc import Collection

from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import cursor, input_file
from lakeward.model.inputs import Cursor, InputFile

_FILES = Statement(
    """SELECT path, size, modified_ms, checksum FROM lakeward_input
    WHERE consumer = :consumer AND source = :source"""
)
_TAKE = insertion(input_file)
_CURSOR = Statement(
    """SELECT table_id, version, transaction_id, reader FROM lakeward_cursor
    WHERE consumer = :consumer AND source = :source"""
)
_FIRST = insertion(cursor)
_MOVE = Statement(
    """UPDATE lakeward_cursor
    SET table_id = :table_id, version = :version, transaction_id = :transaction_id,
        reader = :reader
    WHERE consumer = :consumer AND source = :source AND transaction_id = :expected"""
)


def files(session: Session, consumer: str, source: str) -> dict[str, InputFile]:
    """Return the files of a source that a consumer has processed, by path."""
    found = session.rows(_FILES, {"consumer": consumer, "source": source})
    return {row[0]: InputFile(*row) for row in found}


def take(
    session: Session,
    consumer: str,
    source: str,
    taken: Collection[InputFile],
    transaction_id: str,
) -> bool:
    """Record files as processed; return False if one of them was processed before."""
    rows = [
        {
            "consumer": consumer,
            "source": source,
            "path": f.path,
            "size": f.size,
            "modified_ms": f.modified_ms,
            "checksum": f.checksum,
            "transaction_id": transaction_id,
        }
        for f in taken
    ]
    return not rows or session.many(_TAKE, rows) == len(rows)


def position(session: Session, consumer: str, source: str) -> Cursor | None:
    """Return the position up to which a consumer has read a table; None if it has read nothing."""
    row = session.row(_CURSOR, {"consumer": consumer, "source": source})
    return Cursor(*row) if row else None


def move(
    session: Session, consumer: str, source: str, before: Cursor | None, after: Cursor
) -> bool:
    """Update a consumer's position in a table; return False if another transaction changed it."""
    params = {
        "consumer": consumer,
        "source": source,
        "table_id": after.table_id,
        "version": after.version,
        "transaction_id": after.transaction_id,
        "reader": after.reader,
    }
    if before is None:
        return session.run(_FIRST, params) == 1
    return session.run(_MOVE, {**params, "expected": before.transaction_id}) == 1
