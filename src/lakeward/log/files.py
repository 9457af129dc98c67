"""Files with their version ranges, and the index over their statistics.

`lakeward_file_stat` has, for every file and indexed field, the interval of its keys and the *level*
of that interval: the number of bits of its width. An interval of level `n` that meets `[low, high]`
starts no earlier than `low - 2**n`, so one index range per level finds all of them, however they
overlap. A field without a row is null in the whole file; one with an unknown bound has the widest
interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from lakeward.log.codec import FILE_COLUMNS, LINE_COLUMNS, file_of, file_row, partition_text
from lakeward.log.database import Session
from lakeward.log.index_rows import index_rows, insert_rows
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import file, file_stat
from lakeward.model.file import LINE_SEPARATOR, LIVE, Lines, LoggedFile
from lakeward.model.types import Field
from lakeward.model.values import MAX_KEY, MIN_KEY, Value

_COLUMNS = ", ".join(name for name in file.columns if name != "table_id")
_IN_VERSION: Final = (
    "table_id = :table_id AND removed_version > :version AND added_version <= :version"
)
_AT = Statement(f"SELECT {_COLUMNS} FROM lakeward_file WHERE {_IN_VERSION}")  # noqa: S608  our names
# With the plain version SQLite would read all live files, not those that were added.
_AT_AFTER = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_file
    WHERE table_id = :table_id AND removed_version + 0 > :version
      AND added_version > :after AND added_version <= :version"""  # noqa: S608  our names
)
_NEXT_AT = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_file
    WHERE {_IN_VERSION} AND (added_version, ordinal) > (:last_version, :last_ordinal)
    ORDER BY added_version, ordinal LIMIT :most"""  # noqa: S608  our names
)
_ORDINAL_BITS: Final = 32
_SOME_AT = Statement(
    f"SELECT count(*) FROM (SELECT 1 FROM lakeward_file WHERE {_IN_VERSION} LIMIT :most) found"  # noqa: S608  text of our own
)
_ADDED = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_file
    WHERE table_id = :table_id AND added_version = :version ORDER BY added_version, ordinal"""  # noqa: S608  our names
)
_ADDED_BETWEEN = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_file
    WHERE table_id = :table_id AND added_version > :after AND added_version <= :version
    ORDER BY added_version, ordinal"""  # noqa: S608  our names
)
_REMOVED = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_file
    WHERE table_id = :table_id AND removed_version = :version
    ORDER BY added_version, ordinal"""  # noqa: S608  our names
)
# With the plain order SQLite would read all older files, not those that were removed.
_REMOVED_SINCE = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_file
    WHERE table_id = :table_id AND removed_version > :after AND removed_version <= :version
      AND added_version + 0 <= :after
    ORDER BY added_version + 0, ordinal"""  # noqa: S608  our names
)
_REMOVED_BETWEEN = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_file
    WHERE table_id = :table_id AND removed_version > :after AND removed_version <= :version
    ORDER BY added_version, ordinal"""  # noqa: S608  our names
)
_BY_PATH = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_file
    WHERE table_id = :table_id AND path = :path AND removed_version = :live"""  # noqa: S608  our names
)
_EVER_BY_PATH = Statement(
    f"SELECT {_COLUMNS} FROM lakeward_file WHERE table_id = :table_id AND path = :path"  # noqa: S608  our names
)
_AT_PATH = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_file
    WHERE {_IN_VERSION} AND path = :path
    ORDER BY added_version, ordinal"""  # noqa: S608  our names
)
_IS_LIVE = Statement(
    """SELECT 1 FROM lakeward_file WHERE table_id = :table_id AND added_version = :added
    AND ordinal = :ordinal AND removed_version = :live"""
)
_LAST_REMOVED = Statement(
    """SELECT max(removed_version) FROM lakeward_file
    WHERE table_id = :table_id AND path = :path AND removed_version <= :version"""
)
_HAS_PARTITION = Statement(
    f"""SELECT ordinal FROM lakeward_file
    WHERE {_IN_VERSION} AND partition = :partition
    LIMIT 1"""  # noqa: S608  our names
)
_COUNT = Statement("SELECT count(*) FROM lakeward_file")
_CHANGED = Statement(
    """SELECT (SELECT count(*) FROM lakeward_file
      WHERE table_id = :table_id AND added_version > :after AND added_version <= :version)
    + (SELECT count(*) FROM lakeward_file
      WHERE table_id = :table_id AND removed_version > :after AND removed_version <= :version)"""
)
_INSERT = insertion(file, "")
_REMOVE = Statement(
    """UPDATE lakeward_file SET removed_version = :version
    WHERE table_id = :id AND added_version = :added AND ordinal = :nr
      AND removed_version = :live"""
)


def _meeting(dialect: str) -> str:
    """Return SQL for index rows whose interval meets `[low, high]`: one index range per level."""
    low = "CAST(:low_{0} AS BIGINT)" if dialect == "postgresql" else ":low_{0}"
    levels = ",".join(f"({n}, {low.format(n)})" for n in range(65))
    probe = f"(WITH probe(level, low) AS (VALUES {levels}) SELECT * FROM probe) p"  # noqa: S608
    return f"{probe} {_each('lakeward_file_stat', 's', _MEETS, dialect)}"


def _each(table: str, alias: str, condition: str, dialect: str) -> str:
    """Return SQL for a join that looks up rows of a table for each row on its left, in order."""
    if dialect == "postgresql":
        # OFFSET keeps the planner from turning the look-ups into a scan of the whole table.
        body = f"SELECT * FROM {table} {alias} WHERE {condition} OFFSET 0"  # noqa: S608  our names
        return f"CROSS JOIN LATERAL ({body}) {alias}"
    return f"CROSS JOIN {table} {alias} ON {condition}"


def _probe(dialect: str) -> Statement:
    columns = ", ".join(f"f.{name}" for name in _COLUMNS.split(", "))
    look_up = _each("lakeward_file", "f", _IS_IN_VERSION, dialect)
    return Statement(f"SELECT {columns} FROM {_meeting(dialect)} {look_up}")  # noqa: S608  our names


def _lines(dialect: str) -> Statement:
    """Return a query for files after a key: their lines as one text, their number, the last key."""
    if dialect == "sqlite":
        # One call for all columns is faster than joining them one by one.
        marks = LINE_SEPARATOR.join("%s" for _ in LINE_COLUMNS)
        line = f"printf('{marks}', {', '.join(LINE_COLUMNS)})"
        joined = "group_concat(line, char(10))"
    else:
        texts = (f"coalesce(cast({c} AS TEXT), '')" for c in LINE_COLUMNS)
        line = f" || '{LINE_SEPARATOR}' || ".join(texts)
        joined = "string_agg(line, chr(10))"
    return Statement(
        f"""SELECT {joined}, count(*), max((added_version << {_ORDINAL_BITS}) | ordinal) FROM (
            SELECT {line} AS line, added_version, ordinal FROM lakeward_file
            WHERE {_IN_VERSION} AND (added_version, ordinal) > (:last_version, :last_ordinal)
            ORDER BY added_version, ordinal LIMIT :most
        ) found"""  # noqa: S608  our names
    )


def _estimate(dialect: str) -> Statement:
    return Statement(
        f"SELECT count(*) FROM (SELECT 1 FROM {_meeting(dialect)} LIMIT :most) found"  # noqa: S608
    )


_MEETS: Final = """s.table_id = :table_id AND s.field_id = :field_id AND s.level = p.level
    AND s.min_key BETWEEN p.low AND :high AND s.max_key >= :low"""
_IS_IN_VERSION: Final = """f.table_id = s.table_id AND f.added_version = s.added_version
    AND f.ordinal = s.ordinal AND f.removed_version > :version
    AND f.added_version <= :version AND f.added_version > :after"""
_LINES_AT: Final = {dialect: _lines(dialect) for dialect in ("sqlite", "postgresql")}
_PROBES: Final = {dialect: _probe(dialect) for dialect in ("sqlite", "postgresql")}
_ESTIMATES: Final = {dialect: _estimate(dialect) for dialect in ("sqlite", "postgresql")}


def at(session: Session, table_id: int, version: int, *, after: int = -1) -> Iterator[LoggedFile]:
    """Yield the files of a version, unordered; with `after`, only those added after it."""
    params = {"table_id": table_id, "version": version, "after": after}
    for chunk in session.stream(_AT if after < 0 else _AT_AFTER, params):
        for row in chunk:
            yield file_of(row)


def next_at(
    session: Session, table_id: int, version: int, last: LoggedFile | None, most: int
) -> list[LoggedFile]:
    """Return at most `most` files of a version, oldest first, that come after the file `last`."""
    after = (-1, -1) if last is None else (last.added, last.ordinal)
    key = {"last_version": after[0], "last_ordinal": after[1], "most": most}
    return _files(session, _NEXT_AT, table_id=table_id, version=version, **key)


def are_at_most(session: Session, table_id: int, version: int, most: int) -> bool:
    """Return whether a version has at most `most` files; count no further than that."""
    params = {"table_id": table_id, "version": version, "most": most + 1}
    return int(session.row(_SOME_AT, params)[0]) <= most


def lines_at(session: Session, table_id: int, version: int, at_once: int) -> Iterator[Lines]:
    """Yield the files of a version as lines of `LINE_COLUMNS`, `at_once` lines in one text.

    A missing value is empty. For large tables this is much faster than values for each column.
    """
    params = {"table_id": table_id, "version": version, "most": at_once}
    last = (-1, -1)
    while True:
        after = {"last_version": last[0], "last_ordinal": last[1]}
        text, count, key = session.row(_LINES_AT[session.dialect], params | after)
        if count:
            yield Lines(text, count)
        if count < at_once:
            return
        last = (key >> _ORDINAL_BITS, key & (1 << _ORDINAL_BITS) - 1)


def in_range(
    session: Session,
    table_id: int,
    version: int,
    *,
    field_id: int,
    low: int | None,
    high: int | None,
    after: int = -1,
) -> Iterator[LoggedFile]:
    """Yield files of a version whose values of a field may be between two keys, both included."""
    params = _range(table_id, field_id, low, high) | {"version": version, "after": after}
    for chunk in session.stream(_PROBES[session.dialect], params):
        for row in chunk:
            yield file_of(row)


def count_in_range(
    session: Session,
    table_id: int,
    *,
    field_id: int,
    low: int | None,
    high: int | None,
    most: int,
) -> int:
    """Return how many index entries of all versions overlap a range; stop counting at `most`."""
    params = _range(table_id, field_id, low, high) | {"most": most}
    return int(session.row(_ESTIMATES[session.dialect], params)[0])


def added_at(session: Session, table_id: int, version: int) -> list[LoggedFile]:
    """Return the files that a version added, in their order."""
    return _files(session, _ADDED, table_id=table_id, version=version)


def removed_at(session: Session, table_id: int, version: int) -> list[LoggedFile]:
    """Return the files that a version removed, in their order."""
    return _files(session, _REMOVED, table_id=table_id, version=version)


def removed_since(session: Session, table_id: int, after: int, version: int) -> list[LoggedFile]:
    """Return the files of version `after` that were removed up to `version`."""
    return _files(session, _REMOVED_SINCE, table_id=table_id, after=after, version=version)


def added_between(session: Session, table_id: int, after: int, version: int) -> list[LoggedFile]:
    """Return all files that were added after `after` and up to `version`, in order."""
    return _files(session, _ADDED_BETWEEN, table_id=table_id, after=after, version=version)


def removed_between(session: Session, table_id: int, after: int, version: int) -> list[LoggedFile]:
    """Return all files that were removed after `after` and up to `version`."""
    return _files(session, _REMOVED_BETWEEN, table_id=table_id, after=after, version=version)


def count_changed(session: Session, table_id: int, after: int, version: int) -> int:
    """Return how many files were added or removed after `after` and up to `version`."""
    params = {"table_id": table_id, "after": after, "version": version}
    return int(session.row(_CHANGED, params)[0])


def live_at_path(session: Session, table_id: int, path: str) -> list[LoggedFile]:
    """Return live files at a path: several only if their deletion vectors differ."""
    return _files(session, _BY_PATH, table_id=table_id, path=path, live=LIVE)


def ever_at_path(session: Session, table_id: int, path: str) -> list[LoggedFile]:
    """Return the files that were at a path in any version."""
    return _files(session, _EVER_BY_PATH, table_id=table_id, path=path)


def is_live(session: Session, table_id: int, known: LoggedFile) -> bool:
    """Return whether no version has removed or replaced this entry of a file."""
    key = {"table_id": table_id, "added": known.added, "ordinal": known.ordinal, "live": LIVE}
    return session.row(_IS_LIVE, key) is not None


def at_path(session: Session, table_id: int, version: int, path: str) -> list[LoggedFile]:
    """Return files of a version at a path: several only if their deletion vectors differ."""
    return _files(session, _AT_PATH, table_id=table_id, version=version, path=path)


def last_removed(session: Session, table_id: int, version: int, path: str) -> int | None:
    """Return the newest version, up to `version`, that removed the file at a path, or None."""
    params = {"table_id": table_id, "version": version, "path": path}
    found: int | None = session.row(_LAST_REMOVED, params)[0]
    return found


def has_partition(
    session: Session, table_id: int, version: int, values: Mapping[int, Value]
) -> bool:
    """Return whether a version has a file in a partition."""
    params = {"table_id": table_id, "version": version, "partition": partition_text(values)}
    return session.row(_HAS_PARTITION, params) is not None


def count(session: Session) -> int:
    """Return the number of files of all tables and versions."""
    return int(session.row(_COUNT)[0])


def insert(
    session: Session, table_id: int, new: Sequence[LoggedFile], indexed: Sequence[Field]
) -> None:
    """Insert files and their rows in the statistics index."""
    stats = [row for f in new for row in index_rows(table_id, f, indexed)]
    if len(new) >= session.bulk_from:
        session.bulk(file.name, FILE_COLUMNS, (file_row(table_id, f) for f in new))
        session.bulk(file_stat.name, file_stat.columns, stats)
        return
    session.many(
        _INSERT, [dict(zip(FILE_COLUMNS, file_row(table_id, f), strict=True)) for f in new]
    )
    insert_rows(session, stats)


def remove(session: Session, table_id: int, version: int, gone: Iterable[LoggedFile]) -> int:
    """Mark files as removed by a version; return how many of them were live."""
    constant = {"id": table_id, "live": LIVE, "version": version}
    keys = [{"added": f.added, "nr": f.ordinal, **constant} for f in gone]
    return session.many(_REMOVE, keys) if keys else 0


def _files(session: Session, statement: Statement, **params: Any) -> list[LoggedFile]:
    return [file_of(row) for row in session.rows(statement, params)]


def _range(table_id: int, field_id: int, low: int | None, high: int | None) -> dict[str, Any]:
    lowest = MIN_KEY if low is None else low
    params: dict[str, Any] = {
        "table_id": table_id,
        "field_id": field_id,
        "low": lowest,
        "high": MAX_KEY if high is None else high,
    }
    # An interval of level n is narrower than 2**n, so one that reaches `low` starts after this.
    for level in range(65):
        params[f"low_{level}"] = max(lowest - (1 << level) + 1, MIN_KEY)
    return params
