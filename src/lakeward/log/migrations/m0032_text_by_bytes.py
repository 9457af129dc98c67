"""Compare paths and locations by their bytes on PostgreSQL, whatever the database's collation is.

They are searched by ranges of text. Some collations ignore punctuation, so that `/warehouse/t` is
not between `/` and `0`. SQLite always compares bytes.
"""

from __future__ import annotations

from lakeward.log.database import Session

STATEMENTS = ()
_POSTGRES = (
    'ALTER TABLE lakeward_file ALTER COLUMN path TYPE TEXT COLLATE "C"',
    'ALTER TABLE lakeward_head ALTER COLUMN location TYPE TEXT COLLATE "C"',
)


def run(session: Session) -> None:
    """Set the collation of the columns on PostgreSQL; this rebuilds their indexes."""
    if session.dialect == "postgresql":
        for statement in _POSTGRES:
            session.script(statement)
