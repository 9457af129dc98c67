"""Change files of commits: kept with the version that wrote them, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from lakeward.log.codec import loads, optional_text, partition_of, partition_text
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.log.tables import change_file
from lakeward.model.commit import Commit
from lakeward.model.file import DataFile

_COLUMNS = [c.name for c in change_file.c]
_OF = Statement(
    sa.select(change_file.c.path, change_file.c.size, change_file.c.partition, change_file.c.extra)
    .where(
        change_file.c.table_id == bindparam("table_id"),
        change_file.c.version == bindparam("version"),
    )
    .order_by(change_file.c.ordinal)
)


def insert(session: Session, table_id: int, new: Iterable[Commit]) -> None:
    """Insert the change files of commits; most have none."""
    rows = [row for commit in new for row in _rows(table_id, commit)]
    if rows:
        session.bulk(change_file.name, _COLUMNS, rows)


def of(session: Session, table_id: int, version: int) -> tuple[DataFile, ...]:
    """The change files of a version."""
    found = session.rows(_OF, {"table_id": table_id, "version": version})
    return tuple(
        DataFile(
            path, size, None, 0, partition_of(partition), extra=loads(extra) if extra else None
        )
        for path, size, partition, extra in found
    )


def _rows(table_id: int, commit: Commit) -> Iterator[tuple[Any, ...]]:
    for ordinal, file in enumerate(commit.change_files):
        yield (
            table_id,
            commit.version,
            ordinal,
            file.path,
            file.size,
            partition_text(file.partition),
            optional_text(file.extra),
        )
