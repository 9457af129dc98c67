"""A member's commit recorded in the log, behind its locked head."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.log import audit, commits, definitions, files, heads
from lakeward.log.database import Session
from lakeward.model.commit import Commit, Head
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE, LoggedFile
from lakeward.storage.base import Prepared


@dataclass(frozen=True, slots=True)
class Ratified:
    """One member as it was ratified: all that its publication needs.

    Attributes:
        head: The table after the commit.
        commit: With all its actions.
        definition: That holds at the commit's version.
        prepared: Its published file, written while the commit was ratified.
    """

    head: Head
    commit: Commit
    definition: Definition
    prepared: Prepared | None = None


def insert(session: Session, member: Ratified, before: Head) -> None:
    """Insert a member's commit behind its locked head."""
    commit, table_id = member.commit, before.table_id
    version = commit.version
    new = [LoggedFile(f, version, n, LIVE) for n, f in enumerate(commit.added)]
    changed = None if commit.definition is None else member.head.definition_id
    if commit.definition is not None:
        definitions.insert(session, table_id, member.head.definition_id, version, commit.definition)
    commits.insert(session, table_id, commit, changed)
    files.insert(session, table_id, new, member.definition.indexed)
    if files.remove(session, table_id, version, commit.removed) != len(commit.removed):
        # Conflict detection has seen to it that these files are live.
        message = f"a file that version {version} of {before.name} removes is not live"
        raise AssertionError(message)
    link = audit.add(
        session,
        member.head,
        at_ms=commit.timestamp_ms,
        actor=commit.info.actor,
        action=commit.info.operation,
        transaction_id=commit.info.transaction_id,
        version=version,
    )
    heads.advance(session, member.head, link)
