"""Inputs that were taken in, each once: the rows are inserted by the transaction that used them."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy import bindparam

from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.log.tables import cursor, input_file
from lakeward.model.inputs import Cursor, InputFile

_OWN = ("consumer", "source")
_FILES = Statement(
    sa.select(
        input_file.c.path, input_file.c.size, input_file.c.modified_ms, input_file.c.checksum
    ).where(*(input_file.c[n] == bindparam(n) for n in _OWN))
)
_TAKE = Statement(
    f"""INSERT INTO lakeward_input ({", ".join(c.name for c in input_file.c)})
    VALUES ({", ".join(f":{c.name}" for c in input_file.c)})
    ON CONFLICT DO NOTHING"""  # noqa: S608  column names of our own
)
_CURSOR = Statement(
    sa.select(cursor.c.table_id, cursor.c.version, cursor.c.transaction_id, cursor.c.reader).where(
        *(cursor.c[n] == bindparam(n) for n in _OWN)
    )
)
_FIRST = Statement(
    f"""INSERT INTO lakeward_cursor ({", ".join(c.name for c in cursor.c)})
    VALUES ({", ".join(f":{c.name}" for c in cursor.c)})
    ON CONFLICT DO NOTHING"""  # noqa: S608  column names of our own
)
_MOVE = Statement(
    """UPDATE lakeward_cursor
    SET table_id = :table_id, version = :version, transaction_id = :transaction_id,
        reader = :reader
    WHERE consumer = :consumer AND source = :source AND transaction_id = :expected"""
)


def files(session: Session, consumer: str, source: str) -> dict[str, InputFile]:
    """The files that a consumer took from a source, by path."""
    found = session.rows(_FILES, {"consumer": consumer, "source": source})
    return {row[0]: InputFile(*row) for row in found}


def take(
    session: Session,
    consumer: str,
    source: str,
    taken: Collection[InputFile],
    transaction_id: str,
) -> bool:
    """Record files as taken; False where one was taken before."""
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
    """How far a consumer read a table, if it ever did."""
    row = session.row(_CURSOR, {"consumer": consumer, "source": source})
    return Cursor(*row) if row else None


def move(
    session: Session, consumer: str, source: str, before: Cursor | None, after: Cursor
) -> bool:
    """Move a cursor; False where somebody else moved it meanwhile."""
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
