"""Deletes rows of the log that no version can reach any more, in small steps.

Rows of files are deleted once their versions are retired and the files are deleted. Commits,
definitions and the audit trail are kept, because history is read from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakeward.log.codec import file_of
from lakeward.log.database import Session
from lakeward.log.index_rows import index_rows
from lakeward.log.indexing import indexed_of
from lakeward.log.reach import is_held
from lakeward.log.statement import Statement
from lakeward.log.tables import LogTable, app_transaction, change_file, file, file_stat
from lakeward.model.file import LoggedFile

_COLUMNS = ", ".join(name for name in file.columns if name != "table_id")
_OLD = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_file
    WHERE table_id = :table_id AND removed_version < :kept_from
      AND (removed_version, added_version, ordinal) > (:removed, :added, :nr)
    ORDER BY removed_version, added_version, ordinal LIMIT :most"""  # noqa: S608  our names
)
_DELETE = Statement(
    """DELETE FROM lakeward_file
    WHERE table_id = :table_id AND added_version = :added AND ordinal = :nr"""
)
_DELETE_STAT = Statement(
    """DELETE FROM lakeward_file_stat WHERE table_id = :table_id AND field_id = :field_id
      AND level = :level AND min_key = :min_key AND added_version = :added_version
      AND ordinal = :ordinal"""
)
_DELETE_CHANGES = Statement(
    "DELETE FROM lakeward_change_file WHERE table_id = :table_id AND version < :kept_from"
)
Place = tuple[int, int, int]
START: Final[Place] = (-1, -1, -1)


def prune_files(
    session: Session,
    table_id: int,
    kept_from: int,
    held: Sequence[int],
    *,
    after: Place = START,
    most: int = 500,
) -> tuple[int, Place | None]:
    """Delete up to `most` file rows removed before `kept_from` that no held version needs.

    Return the number of deleted rows, and the place to continue from; None when no rows are left to
    examine.
    """
    params = {"table_id": table_id, "kept_from": kept_from, "most": most}
    removed, added, nr = after
    rows = session.rows(_OLD, params | {"removed": removed, "added": added, "nr": nr})
    found = [file_of(row) for row in rows]
    gone = [f for f in found if not is_held(held, f.added, f.removed)]
    _delete(session, table_id, gone)
    last = found[-1] if len(found) == most else None
    return len(gone), None if last is None else (last.removed, last.added, last.ordinal)


def prune_changes(session: Session, table_id: int, kept_from: int) -> int:
    """Delete the rows of change files of versions before `kept_from`; return how many."""
    return session.run(_DELETE_CHANGES, {"table_id": table_id, "kept_from": kept_from})


def purge(session: Session, table_id: int) -> None:
    """Delete all rows of a table about files, statistics, change files and applications."""
    for statement in _PURGE:
        session.run(statement, {"table_id": table_id})


def _delete(session: Session, table_id: int, gone: Sequence[LoggedFile]) -> None:
    if not gone:
        return
    stats = [
        dict(zip(file_stat.columns, row, strict=True))
        for f, indexed in zip(gone, indexed_of(session, table_id, gone), strict=True)
        for row in index_rows(table_id, f, indexed)
    ]
    session.many(_DELETE_STAT, stats)
    session.many(_DELETE, [{"table_id": table_id, "added": f.added, "nr": f.ordinal} for f in gone])


def _purge_of(table: LogTable) -> Statement:
    return Statement(f"DELETE FROM {table.name} WHERE table_id = :table_id")  # noqa: S608  our names


_PURGE: Final = tuple(_purge_of(t) for t in (file_stat, file, change_file, app_transaction))
