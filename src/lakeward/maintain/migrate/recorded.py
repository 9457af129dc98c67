"""Reads from a table's history which source files its migrations have added.

Every commit of a migration records the source, the mode, and the files with their marks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import orjson

from lakeward.context import LakeContext
from lakeward.errors import Conflict, InvalidInput
from lakeward.log import commits, heads
from lakeward.log.commits import LoggedCommit
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE
from lakeward.model.migration import MigrationMode
from lakeward.model.names import TableName

OPERATION: Final = "MIGRATE"


@dataclass(frozen=True)
class Recorded:
    """A table, and the commits of its migrations, newest first.

    Attributes:
        head: The table.
        definition: The table's definition.
        commits: The commits of migrations; none if no migration has added anything.
        first_version: The oldest version in the log.
    """

    head: Head
    definition: Definition
    commits: Sequence[LoggedCommit]
    first_version: int

    @cached_property
    def marks(self) -> dict[str, str]:
        """The marks of the files that were added, by their paths; the newest mark of each."""
        found: dict[str, str] = {}
        for commit in self.commits:
            found = _files(commit) | found
        return found

    @cached_property
    def unfinished(self) -> set[str]:
        """The paths of the files that an interrupted run has added."""
        found: set[str] = set()
        for commit in self.commits:
            if commit.info.parameters.get("complete") == "true":
                break
            found |= _files(commit).keys()
        return found

    @property
    def is_complete(self) -> bool:
        """Whether the newest run was completed."""
        return bool(self.commits) and self.commits[0].info.parameters.get("complete") == "true"

    def check(self, source: str, format: str, mode: MigrationMode) -> None:  # noqa: A002  as users
        """Raise `InvalidInput` if this table was migrated otherwise, or has lost records of it."""
        table = str(self.head.name)
        for commit in self.commits:
            before = commit.info.parameters
            if os.path.normpath(before.get("source", "")) != source:
                what = f"Table {table} was migrated from {before.get('source')}."
                raise InvalidInput(what, hint="Choose another name.", table=table)
            if (self.head.format, before.get("mode")) != (format, mode.value):
                own = f"format={self.head.format!r} and mode={before.get('mode')!r}"
                what = f"Table {table} was migrated with {own}, not {format!r} and {mode.value!r}."
                raise InvalidInput(what, hint=f"Give {own}.", table=table)
        if self.commits and self.first_version:
            what = (
                f"The log of {table} begins at version {self.first_version}, as after a rebuild of"
                " the store: it may lack files that were migrated, which would be added twice."
            )
            hint = "Migrate to a new name, or append the new files."
            raise InvalidInput(what, hint=hint, table=table)


def recorded(context: LakeContext, name: TableName) -> Recorded | None:
    """Return a table with the commits of its migrations, or None if there is no such table."""
    with context.database.read() as session:
        head = heads.find(session, name)
        if head is None:
            return None
        found = commits.newest_of(session, head.table_id, OPERATION, limit=LIVE)
        first = commits.first_version(session, head.table_id) or 0
        return Recorded(head, context.definition(session, head), found, first)


def check_alone(session: Session, known: Head, paths: set[str], source: str, own: str) -> None:
    """Raise `Conflict` if another migration has added one of the files since a known head.

    Args:
        session: The session that commits.
        known: The table as this run knows it.
        paths: The files that this run adds, in all its commits.
        source: The source of the migration.
        own: The id of the transaction that commits.
    """
    table = str(known.name)
    if heads.get(session, known.name).table_id != known.table_id:
        what = f"Table {table} was dropped and made again while {source} was migrated to it."
        raise Conflict(what, hint="Run it again.", table=table)
    for commit in commits.each_of(session, known.table_id, OPERATION):
        if commit.version <= known.version:
            return
        twice = sorted(_files(commit).keys() & paths)
        if twice and commit.info.transaction_id != own:
            what = (
                f"While {source} was migrated to {table}, another migration has added {twice[0]}."
            )
            raise Conflict(what, hint="Run it again.", table=table, files=twice)


def _files(commit: LoggedCommit) -> dict[str, str]:
    found: dict[str, str] = orjson.loads(commit.info.parameters.get("files", "{}"))
    return found
