"""Numbers of files, bytes and rows of versions, and what they gain and lose from one to another."""

from __future__ import annotations

from typing import Final, NamedTuple

from lakeward.log.codec import loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.model.file import deleted_rows


class Sums(NamedTuple):
    """Sums over some files.

    Attributes:
        files: How many files.
        size: Their bytes.
        counted: How many of them have a row count.
        rows: The sum of these row counts.
        deleted: How many of these rows deletion vectors delete, as far as the vectors have a count.
        uncounted: How many of the files with a row count have a deletion vector without a count.
    """

    files: int
    size: int
    counted: int
    rows: int
    deleted: int
    uncounted: int

    @property
    def live_rows(self) -> int | None:
        """Rows that are not deleted; None if a file or deletion vector lacks its count."""
        known = self.counted == self.files and not self.uncounted
        return self.rows - self.deleted if known else None

    @property
    def logged_rows(self) -> int:
        """Rows without deleted ones, as far as files and deletion vectors have their counts."""
        return self.rows - self.deleted

    def changed(self, added: Sums, removed: Sums) -> Sums:
        """Return the sums after files were added and others removed."""
        return Sums(*(a + b - c for a, b, c in zip(self, added, removed, strict=True)))


def _statements(condition: str) -> tuple[Statement, Statement]:
    """Return statements for the sums over some files, and for their deletion vectors.

    The first reads only an index; the second only files that have deletion vectors.
    """
    counts = "coalesce(sum(size), 0), count(row_count), coalesce(sum(row_count), 0)"
    return (
        Statement(f"SELECT count(*), {counts} FROM lakeward_file WHERE {condition}"),  # noqa: S608  text of our own
        Statement(
            f"""SELECT deletion_vector FROM lakeward_file
            WHERE {condition} AND deletion_vector IS NOT NULL AND row_count IS NOT NULL"""  # noqa: S608  text of our own
        ),
    )


IN_VERSION: Final = (
    "table_id = :table_id AND removed_version > :version AND added_version <= :version"
)
# With the plain version SQLite may read all live files, not those that were added.
GAINED: Final = """table_id = :table_id AND added_version > :before AND added_version <= :version
    AND removed_version + 0 > :version"""
# For a wide range: reads the live files by their index, and looks up no row.
GAINED_OF_MANY: Final = """table_id = :table_id AND removed_version > :version
    AND added_version + 0 > :before AND added_version + 0 <= :version"""
LOST: Final = """table_id = :table_id AND removed_version > :before AND removed_version <= :version
    AND added_version <= :before"""
_AT: Final = _statements(IN_VERSION)
_GAINED: Final = _statements(GAINED)
_GAINED_OF_MANY: Final = _statements(GAINED_OF_MANY)
_LOST: Final = _statements(LOST)
_WIDE: Final = 20_000
"""A range of versions that added so many files is wide."""
_SOME_ADDED: Final = Statement(
    """SELECT count(*) FROM (SELECT 1 FROM lakeward_file WHERE table_id = :table_id
    AND added_version > :before AND added_version <= :version LIMIT :most) found"""
)
_OWN: Final = """lakeward_file f WHERE f.table_id = :table_id
    AND f.added_version > :before AND f.added_version <= :version
    AND f.path NOT LIKE :rooted AND f.path NOT LIKE :schemed"""
# A file that gets a deletion vector, or is restored, has several rows; it counts once.
_STORED = Statement(
    f"SELECT coalesce(sum(size), 0), count(*), count(DISTINCT path) FROM {_OWN}"  # noqa: S608  our names
)
_STORED_ONCE = Statement(
    f"""SELECT coalesce(sum(size), 0) FROM
    (SELECT path, max(size) AS size FROM {_OWN} GROUP BY path) own"""  # noqa: S608  our names
)
# With the plain version SQLite would read all older files of the table, not those of the path.
_STORED_SINCE = Statement(
    f"""SELECT coalesce(sum(f.size), 0) FROM {_OWN} AND NOT EXISTS (
      SELECT 1 FROM lakeward_file o WHERE o.table_id = f.table_id AND o.path = f.path
        AND (o.added_version + 0, o.ordinal) < (f.added_version, f.ordinal))"""  # noqa: S608  our names
)


def at(session: Session, table_id: int, version: int) -> Sums:
    """Return the sums over all files of a version."""
    return _sums(session, _AT, {"table_id": table_id, "version": version})


def between(session: Session, table_id: int, before: int, version: int) -> tuple[Sums, Sums]:
    """Return the sums over files that a version has and an older one has not, and the reverse.

    They are right only if neither version is retired.
    """
    params = {"table_id": table_id, "before": before, "version": version}
    gained = _GAINED_OF_MANY if is_wide(session, table_id, before, version) else _GAINED
    return _sums(session, gained, params), _sums(session, _LOST, params)


def is_wide(session: Session, table_id: int, before: int, version: int) -> bool:
    """Return whether the versions after `before` and up to `version` added very many files."""
    params = {"table_id": table_id, "before": before, "version": version, "most": _WIDE}
    return int(session.row(_SOME_ADDED, params)[0]) == _WIDE


def stored(session: Session, table_id: int, version: int, before: int = -1) -> int:
    """Return the bytes of files below a table's directory that versions up to `version` added.

    Files that are removed again count, too. With `before`, only files of later versions count.
    """
    versions = {"table_id": table_id, "before": before, "version": version}
    own = {**versions, "rooted": "/%", "schemed": "%://%"}
    if before >= 0:
        return int(session.row(_STORED_SINCE, own)[0])
    size, rows, paths = session.row(_STORED, own)
    return int(size if rows == paths else session.row(_STORED_ONCE, own)[0])


def _sums(
    session: Session, statements: tuple[Statement, Statement], params: dict[str, int]
) -> Sums:
    count, size, counted, rows = map(int, session.row(statements[0], params))
    deleted = [
        deleted_rows(loads(text))
        for chunk in session.stream(statements[1], params)
        for (text,) in chunk
    ]
    known = [number for number in deleted if number is not None]
    return Sums(count, size, counted, rows, sum(known), len(deleted) - len(known))
