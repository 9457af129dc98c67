"""Finds how long versions can be read: the promised ones, and those that are still readable."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from lakeward.context import LakeContext
from lakeward.errors import VersionNotFound
from lakeward.formats.policy import settings
from lakeward.formats.properties import retention_ms
from lakeward.log import branches, commits, retired, tags
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.read.presence import oldest_working


@dataclass(frozen=True, slots=True)
class Retention:
    """How far back a table can be read.

    Attributes:
        table: The table's name.
        period: How long a version is kept after a newer one replaced it.
        promised_version: The oldest promised version: the one that was current one period ago.
        oldest_version: The oldest readable version: all its files exist.
        held_versions: Versions that tags, branches and clones protect, however old they are.
    """

    table: str
    period: timedelta
    promised_version: int
    oldest_version: int
    held_versions: tuple[int, ...]


def retention(context: LakeContext, session: Session, head: Head) -> Retention:
    """Return how far back a table can be read."""
    period_ms = _period_ms(context, session, head)
    promised = _promised(session, head, period_ms)
    held = tags.held_versions(session, head.table_id) | branches.held_versions(
        session, head.table_id
    )
    oldest = oldest_working(context, session, head)
    period = timedelta(milliseconds=period_ms)
    return Retention(str(head.name), period, promised, oldest, tuple(sorted(held)))


def check_readable(context: LakeContext, session: Session, head: Head, version: int) -> None:
    """Raise `VersionNotFound` for a vacuumed version; its hint has the oldest promised one."""
    try:
        retired.check(session, head, version)
    except VersionNotFound as error:
        promised = promised_version(context, session, head)
        intact = retired.intact_from(session, head.table_id, promised)
        hint = f"{error.hint} Versions from {promised} on are promised."
        if intact > promised:
            hint = f"{error.hint} Those from {promised} on were promised, but a vacuum was forced"
            hint += f" to delete files of versions before {intact}."
        raise VersionNotFound(
            error.what, hint=hint, **error.facts, promised_version=promised
        ) from error


def promised_version(context: LakeContext, session: Session, head: Head) -> int:
    """Return the oldest promised version."""
    return _promised(session, head, _period_ms(context, session, head))


def gone(context: LakeContext, head: Head, version: int, path: str | None) -> VersionNotFound:
    """Return the error for an old version with missing files; its hint has readable versions."""
    with context.database.read() as session:
        found = retention(context, session, head)
    what = f"Version {version} of table {head.name} cannot be read any more: files of it are gone."
    hint = (
        f"Versions from {found.promised_version} on are promised,"
        f" and the oldest that can be read is {found.oldest_version}."
    )
    return VersionNotFound(
        what,
        hint=hint,
        table=str(head.name),
        version=version,
        promised_version=found.promised_version,
        oldest_version=found.oldest_version,
        path=path,
    )


def _period_ms(context: LakeContext, session: Session, head: Head) -> int:
    """Return how long versions are kept, by the table's property and the matching policies."""
    return retention_ms(settings(head, context.definition(session, head)))


def _promised(session: Session, head: Head, period_ms: int) -> int:
    found = commits.version_at(session, head.table_id, now_ms() - period_ms)
    return commits.first_version(session, head.table_id) or 0 if found is None else found
