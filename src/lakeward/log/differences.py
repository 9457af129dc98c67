"""What a version has and an older one has not, and the reverse: partitions, and files in pages.

The conditions are those of `lakeward.log.totals`, so the numbers agree with its sums. The functions
return what is right only if neither version is retired.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from lakeward.log.codec import FILE_COLUMNS, file_of, loads, partition_of
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.log.totals import GAINED, GAINED_OF_MANY, LOST
from lakeward.model.file import LIVE, LoggedFile, deleted_rows
from lakeward.model.values import Value

_COLUMNS: Final = ", ".join(FILE_COLUMNS[1:])


class Side(StrEnum):
    """Which files: those that the newer of two versions gained, or those that the older lost."""

    GAINED = "gained"
    LOST = "lost"


class PartitionSums(NamedTuple):
    """How many files and rows of a partition; rows include deleted ones."""

    values: dict[int, Value]
    files: int
    rows: int


class RowSums(NamedTuple):
    """Files that a version added or removed; `rows` is None if a count is missing."""

    files: int
    rows: int | None


def _partitions(condition: str) -> Statement:
    return Statement(
        f"""SELECT partition, count(*), coalesce(sum(row_count), 0) FROM lakeward_file
        WHERE {condition} GROUP BY partition"""  # noqa: S608  our text
    )


def _page(condition: str, added: str) -> Statement:
    """Return a query for files after a key; `added` says how the version that added them is read.

    If it is computed, the database sorts the files that it finds by their removal. Otherwise it
    reads files in the order in which they were added until it has found enough.
    """
    return Statement(
        f"""SELECT {_COLUMNS} FROM lakeward_file
        WHERE {condition} AND ({added}, ordinal) > (:last_version, :last_ordinal)
        ORDER BY {added}, ordinal LIMIT :most"""  # noqa: S608  our text
    )


def _by_version(column: str) -> tuple[Statement, Statement]:
    """Return statements for the files of each commit, and for their deletion vectors."""
    within = f"table_id = :table_id AND {column} > :before AND {column} <= :version"
    return (
        Statement(
            f"""SELECT {column}, count(*), count(row_count), coalesce(sum(row_count), 0)
            FROM lakeward_file WHERE {within} GROUP BY {column}"""  # noqa: S608  our text
        ),
        Statement(
            f"""SELECT {column}, deletion_vector FROM lakeward_file
            WHERE {within} AND deletion_vector IS NOT NULL"""  # noqa: S608  our text
        ),
    )


_PARTITIONS: Final = {Side.GAINED: _partitions(GAINED), Side.LOST: _partitions(LOST)}
_FEW: Final = {
    Side.GAINED: _page(GAINED_OF_MANY, "added_version + 0"),
    Side.LOST: _page(LOST.replace("added_version", "added_version + 0"), "added_version + 0"),
}
_MANY: Final = {
    Side.GAINED: _page(GAINED, "added_version"),
    Side.LOST: _page(LOST.replace("removed_version", "removed_version + 0"), "added_version"),
}
_BY_VERSION: Final = {
    Side.GAINED: _by_version("added_version"),
    Side.LOST: _by_version("removed_version"),
}


def partitions(
    session: Session, table_id: int, before: int, version: int, side: Side
) -> Iterator[PartitionSums]:
    """Yield the partitions of the files that were gained or lost."""
    params = {"table_id": table_id, "before": before, "version": version}
    for chunk in session.stream(_PARTITIONS[side], params):
        for text, files, rows in chunk:
            yield PartitionSums(partition_of(text), int(files), int(rows))


def page(
    session: Session,
    table_id: int,
    before: int,
    version: int,
    side: Side,
    *,
    most: int | None = None,
    after: tuple[int, int] = (-1, -1),
    is_many: bool = True,
) -> Iterator[LoggedFile]:
    """Yield files that were gained or lost, in the order in which they were added.

    Args:
        session: The session.
        table_id: The table.
        before: The older version.
        version: The newer version.
        side: Which files.
        most: How many at most; all when None.
        after: `added` and `ordinal` of the file after which to begin.
        is_many: Whether a large share of the table's files were gained or lost. The result is the
            same, but found in another way.
    """
    params = {
        "table_id": table_id,
        "before": before,
        "version": version,
        "last_version": after[0],
        "last_ordinal": after[1],
        "most": LIVE if most is None else most,
    }
    statement = (_MANY if is_many else _FEW)[side]
    for chunk in session.stream(statement, params):
        yield from map(file_of, chunk)


def by_version(
    session: Session, table_id: int, before: int, version: int, side: Side
) -> dict[int, RowSums]:
    """Return what each of the versions after `before` and up to `version` added, or removed.

    Files that a later version removed again count, too. Deleted rows do not.
    """
    params = {"table_id": table_id, "before": before, "version": version}
    sums, vectors = _BY_VERSION[side]
    found: dict[int, RowSums] = {}
    for chunk in session.stream(sums, params):
        for own, files, counted, rows in chunk:
            found[own] = RowSums(int(files), int(rows) if counted == files else None)
    for chunk in session.stream(vectors, params):
        for own, text in chunk:
            files, known = found[own]
            deleted = deleted_rows(loads(text))
            left = None if known is None or deleted is None else known - deleted
            found[own] = RowSums(files, left)
    return found
