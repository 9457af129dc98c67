"""Commits: their rows and change files, history, and the version at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeward.errors import VersionNotFound
from lakeward.log import definitions, domains, files
from lakeward.log.codec import (
    info_of,
    info_text,
    loads,
    optional_text,
    partition_of,
    partition_text,
)
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import app_transaction, change_file, commit
from lakeward.model.commit import AppTransaction, Commit, CommitInfo
from lakeward.model.file import LIVE, DataFile
from lakeward.model.names import TableName

_PAGE = 100
_COLUMNS = "version, timestamp_ms, transaction_id, operation, actor, info, definition_id"
_ONE = Statement(
    f"SELECT {_COLUMNS} FROM lakeward_commit WHERE table_id = :table_id AND version = :version"  # noqa: S608  our names
)
_HISTORY = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_commit
    WHERE table_id = :table_id AND version BETWEEN :low AND :high ORDER BY version DESC
    LIMIT :limit"""  # noqa: S608  our names
)
_BETWEEN = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_commit
    WHERE table_id = :table_id AND timestamp_ms BETWEEN :low AND :high ORDER BY version"""  # noqa: S608  our names
)
_AT_TIME = Statement(
    """SELECT version FROM lakeward_commit
    WHERE table_id = :table_id AND timestamp_ms <= :moment
    ORDER BY timestamp_ms DESC, version DESC LIMIT 1"""
)
_SINCE = Statement(
    """SELECT version FROM lakeward_commit
    WHERE table_id = :table_id AND timestamp_ms >= :moment
    ORDER BY timestamp_ms, version LIMIT 1"""
)
_MAYBE_MOVES = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_commit
    WHERE table_id = :table_id AND version > :after AND version <= :version
      AND info LIKE :sign ORDER BY version"""  # noqa: S608  our names
)
_OF_OPERATION = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_commit
    WHERE table_id = :table_id AND operation = :operation AND version < :before
    ORDER BY version DESC LIMIT :limit"""  # noqa: S608  our names
)
_FIRST = Statement("SELECT min(version) FROM lakeward_commit WHERE table_id = :table_id")
_COUNT = Statement("SELECT count(*) FROM lakeward_commit")
_MEMBERS = Statement(
    """SELECT h.namespace, h.name, c.table_id, c.version
    FROM lakeward_commit c JOIN lakeward_head h ON h.table_id = c.table_id
    WHERE c.transaction_id = :transaction_id ORDER BY h.namespace, h.name"""
)
_DROPPED_MEMBERS = Statement(
    """SELECT c.table_id FROM lakeward_commit c JOIN lakeward_head h ON h.table_id = c.table_id
    WHERE c.transaction_id = :transaction_id AND h.dropped_ms IS NOT NULL"""
)
_TRANSACTIONS = Statement("SELECT transaction_id, info FROM lakeward_commit")
_INSERT = insertion(commit, "")
_INSERT_APP = insertion(app_transaction, "")
_APPS_OF = Statement(
    """SELECT app_id, app_version, updated_ms FROM lakeward_app_transaction
    WHERE table_id = :table_id AND version = :version ORDER BY app_id"""
)
_CHANGE_FILES_OF = Statement(
    """SELECT path, size, partition, extra FROM lakeward_change_file
    WHERE table_id = :table_id AND version = :version ORDER BY ordinal"""
)
_CHANGE_FILES_BETWEEN = Statement(
    """SELECT version, path, size, partition, extra FROM lakeward_change_file
    WHERE table_id = :table_id AND version BETWEEN :low AND :high ORDER BY version, ordinal"""
)
_APPS_AT = Statement(
    """SELECT a.app_id, a.app_version, a.updated_ms FROM lakeward_app_transaction a
    JOIN (SELECT app_id, max(version) AS version FROM lakeward_app_transaction
          WHERE table_id = :table_id AND version <= :version GROUP BY app_id) newest
      ON newest.app_id = a.app_id AND newest.version = a.version
    WHERE a.table_id = :table_id ORDER BY a.app_id"""
)


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A commit's row, without its actions."""

    version: int
    timestamp_ms: int
    info: CommitInfo
    definition_id: int | None


def insert(session: Session, table_id: int, new: Commit, definition_id: int | None) -> None:
    """Insert a commit's row, its application transactions, change files and domains."""
    info = new.info
    session.run(
        _INSERT,
        {
            "table_id": table_id,
            "version": new.version,
            "transaction_id": info.transaction_id,
            "timestamp_ms": new.timestamp_ms,
            "operation": info.operation,
            "actor": info.actor,
            "definition_id": definition_id,
            "info": info_text(info),
            "position": new.position,
        },
    )
    if new.app_transactions:
        session.many(_INSERT_APP, _app_rows(table_id, new.version, new.app_transactions))
    if new.change_files:
        _insert_change_files(session, table_id, [new])
    if new.domains:
        domains.insert(session, table_id, [(new.version, new.domains)])


def insert_many(
    session: Session, table_id: int, new: Iterable[Commit], definitions_at: dict[int, int]
) -> None:
    """Insert many commits in bulk, with application transactions, change files and domains."""
    applications: list[dict[str, Any]] = []
    changing: list[Commit] = []
    configured: list[tuple[int, Mapping[str, str | None]]] = []

    def rows() -> Iterable[tuple[Any, ...]]:
        for c in new:
            applications.extend(_app_rows(table_id, c.version, c.app_transactions))
            if c.change_files:
                changing.append(c)
            if c.domains:
                configured.append((c.version, c.domains))
            yield (
                table_id,
                c.version,
                c.info.transaction_id,
                c.timestamp_ms,
                c.info.operation,
                c.info.actor,
                definitions_at.get(c.version),
                info_text(c.info),
                c.position,
            )

    session.bulk(commit.name, commit.columns, rows())
    if applications:
        session.many(_INSERT_APP, applications)
    _insert_change_files(session, table_id, changing)
    domains.insert(session, table_id, configured)


def full(session: Session, table_id: int, version: int) -> Commit:
    """Return a version with all its actions, for publishing; raise `VersionNotFound` if missing."""
    key = {"table_id": table_id, "version": version}
    row = session.row(_ONE, key)
    if row is None:
        what = f"There is no version {version}."
        raise VersionNotFound(what, version=version)
    logged = _logged(row)
    new = logged.definition_id
    return Commit(
        version=version,
        timestamp_ms=logged.timestamp_ms,
        info=logged.info,
        added=tuple(f.file for f in files.added_at(session, table_id, version)),
        removed=tuple(files.removed_at(session, table_id, version)),
        definition=None if new is None else definitions.get(session, table_id, new),
        app_transactions=tuple(AppTransaction(*r) for r in session.rows(_APPS_OF, key)),
        change_files=change_files(session, table_id, version),
        domains=domains.of_version(session, table_id, version),
    )


def one(session: Session, table_id: int, version: int) -> LoggedCommit | None:
    """Return the row of a version's commit, or None if there is no such version."""
    row = session.row(_ONE, {"table_id": table_id, "version": version})
    return _logged(row) if row else None


def history(
    session: Session, table_id: int, *, low: int, high: int, limit: int
) -> list[LoggedCommit]:
    """Return at most `limit` commits of a version range, newest first."""
    params = {"table_id": table_id, "low": low, "high": high, "limit": limit}
    return [_logged(row) for row in session.rows(_HISTORY, params)]


def between(session: Session, table_id: int, low_ms: int, high_ms: int) -> list[LoggedCommit]:
    """Return the commits of a time range, oldest first."""
    params = {"table_id": table_id, "low": low_ms, "high": high_ms}
    return [_logged(row) for row in session.rows(_BETWEEN, params)]


def moves(session: Session, table_id: int, after: int, version: int) -> list[int]:
    """Return the versions in (`after`, `version`] that only moved rows to other files."""
    params = {"table_id": table_id, "after": after, "version": version, "sign": '%"data_change"%'}
    found = map(_logged, session.rows(_MAYBE_MOVES, params))
    return [c.version for c in found if not c.info.data_change]


def first_timestamp_ms(session: Session, table_id: int) -> int | None:
    """Return when the oldest known version was committed, in milliseconds; None without one."""
    version = first_version(session, table_id)
    found = None if version is None else one(session, table_id, version)
    return None if found is None else found.timestamp_ms


def each_of(session: Session, table_id: int, operation: str) -> Iterator[LoggedCommit]:
    """Yield all commits of one operation, newest first; they are read in pages."""
    before = LIVE
    while page := newest_of(session, table_id, operation, limit=_PAGE, before=before):
        yield from page
        before = page[-1].version


def newest_of(
    session: Session, table_id: int, operation: str, *, limit: int, before: int = LIVE
) -> list[LoggedCommit]:
    """Return the newest commits of one operation before a version, newest first."""
    params = {"table_id": table_id, "operation": operation, "limit": limit, "before": before}
    return [_logged(row) for row in session.rows(_OF_OPERATION, params)]


def newest_with(session: Session, table_id: int, version: int, key: str) -> Any:
    """Return the value of `key` in the newest commit up to `version` that has it, or None."""
    found = newest_commit_with(session, table_id, version, key)
    return None if found is None or found.info.extra is None else found.info.extra[key]


def newest_commit_with(
    session: Session, table_id: int, version: int, key: str
) -> LoggedCommit | None:
    """Return the newest commit up to a version whose `extra` has a key, or None."""
    # Mostly the newest commit has it.
    count = 1
    while page := history(session, table_id, low=0, high=version, limit=count):
        for found in page:
            if found.info.extra is not None and key in found.info.extra:
                return found
        version, count = page[-1].version - 1, _PAGE
    return None


def version_at(session: Session, table_id: int, moment_ms: int) -> int | None:
    """Return the newest version committed at or before a time, or None."""
    row = session.row(_AT_TIME, {"table_id": table_id, "moment": moment_ms})
    return row[0] if row else None


def first_since(session: Session, table_id: int, moment_ms: int) -> int | None:
    """Return the oldest version committed at or after a time, or None."""
    row = session.row(_SINCE, {"table_id": table_id, "moment": moment_ms})
    return row[0] if row else None


def first_version(session: Session, table_id: int) -> int | None:
    """Return the oldest version of a table in the log; None without versions."""
    found: int | None = session.row(_FIRST, {"table_id": table_id})[0]
    return found


def members(session: Session, transaction_id: str) -> list[tuple[TableName, int, int]]:
    """Return the tables that a transaction changed: name, table id and version."""
    rows = session.rows(_MEMBERS, {"transaction_id": transaction_id})
    return [(TableName(namespace, name), table_id, v) for namespace, name, table_id, v in rows]


def dropped_members(session: Session, transaction_id: str) -> set[int]:
    """Return the ids of the tables that a transaction changed and that were dropped since."""
    rows = session.rows(_DROPPED_MEMBERS, {"transaction_id": transaction_id})
    return {table_id for (table_id,) in rows}


def transaction_members(session: Session) -> Iterator[tuple[str, int]]:
    """Yield, for every commit, its transaction's id and number of member tables."""
    for chunk in session.stream(_TRANSACTIONS):
        for transaction_id, info in chunk:
            yield transaction_id, loads(info)["members"]


def count(session: Session) -> int:
    """Return the number of commits in the log, of all tables."""
    return int(session.row(_COUNT)[0])


def app_transactions_at(session: Session, table_id: int, version: int) -> list[AppTransaction]:
    """Return the newest transaction of each application as of a version."""
    params = {"table_id": table_id, "version": version}
    return [AppTransaction(*row) for row in session.rows(_APPS_AT, params)]


def change_files(session: Session, table_id: int, version: int) -> tuple[DataFile, ...]:
    """Return the change files of a version, in their order."""
    found = session.rows(_CHANGE_FILES_OF, {"table_id": table_id, "version": version})
    return tuple(
        DataFile(
            path, size, None, 0, partition_of(partition), extra=loads(extra) if extra else None
        )
        for path, size, partition, extra in found
    )


def change_files_between(
    session: Session, table_id: int, low: int, high: int
) -> dict[int, list[DataFile]]:
    """Return the change files of a range of versions, by version."""
    params = {"table_id": table_id, "low": low, "high": high}
    out: dict[int, list[DataFile]] = {}
    for version, path, size, partition, extra in session.rows(_CHANGE_FILES_BETWEEN, params):
        values = partition_of(partition)
        file = DataFile(path, size, None, 0, values, extra=loads(extra) if extra else None)
        out.setdefault(version, []).append(file)
    return out


def _app_rows(
    table_id: int, version: int, source: Iterable[AppTransaction]
) -> list[dict[str, Any]]:
    return [
        {
            "table_id": table_id,
            "app_id": a.app_id,
            "version": version,
            "app_version": a.version,
            "updated_ms": a.updated_ms,
        }
        for a in source
    ]


def _logged(row: Any) -> LoggedCommit:
    version, timestamp_ms, transaction_id, operation, actor, info, definition_id = row
    return LoggedCommit(
        version, timestamp_ms, info_of(transaction_id, operation, actor, info), definition_id
    )


def _insert_change_files(session: Session, table_id: int, new: Iterable[Commit]) -> None:
    rows = [row for c in new for row in _change_rows(table_id, c)]
    if rows:
        session.bulk(change_file.name, change_file.columns, rows)


def _change_rows(table_id: int, source: Commit) -> Iterator[tuple[Any, ...]]:
    for ordinal, file in enumerate(source.change_files):
        yield (
            table_id,
            source.version,
            ordinal,
            file.path,
            file.size,
            partition_text(file.partition),
            optional_text(file.extra),
        )
