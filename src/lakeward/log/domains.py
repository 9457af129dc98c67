"""Domain metadata of Delta tables: named configurations that a commit sets or removes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import domain

_INSERT = insertion(domain, "")
_OF = Statement(
    """SELECT domain, configuration FROM lakeward_domain
    WHERE table_id = :table_id AND version = :version ORDER BY domain"""
)
_ONE = Statement(
    """SELECT configuration FROM lakeward_domain
    WHERE table_id = :table_id AND domain = :domain ORDER BY version DESC LIMIT 1"""
)
_AT = Statement(
    """SELECT d.domain, d.configuration FROM lakeward_domain d
    JOIN (SELECT domain, max(version) AS version FROM lakeward_domain
          WHERE table_id = :table_id AND version <= :version GROUP BY domain) newest
      ON newest.domain = d.domain AND newest.version = d.version
    WHERE d.table_id = :table_id ORDER BY d.domain"""
)


def insert(
    session: Session, table_id: int, found: Iterable[tuple[int, Mapping[str, str | None]]]
) -> None:
    """Insert the configurations that versions set, by domain; None for a removed domain."""
    rows = [
        {"table_id": table_id, "domain": name, "version": version, "configuration": text}
        for version, domains in found
        for name, text in domains.items()
    ]
    if rows:
        session.many(_INSERT, rows)


def of_version(session: Session, table_id: int, version: int) -> dict[str, str | None]:
    """Return the configurations that a version sets, by domain; None for a removed domain."""
    return dict(session.rows(_OF, {"table_id": table_id, "version": version}))


def newest(session: Session, table_id: int, name: str) -> str | None:
    """Return the newest configuration of a domain; None if it has none or was removed."""
    row = session.row(_ONE, {"table_id": table_id, "domain": name})
    return row[0] if row else None


def at(session: Session, table_id: int, version: int) -> dict[str, str]:
    """Return the configurations of all domains as of a version, by domain."""
    rows = session.rows(_AT, {"table_id": table_id, "version": version})
    return {name: text for name, text in rows if text is not None}
