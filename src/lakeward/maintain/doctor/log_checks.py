"""Checks that the log of a table agrees with itself: versions, times, definitions, files, audit.

Each check yields a finding for every violation.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeward.errors import LakewardError
from lakeward.formats.registry import FORMATS
from lakeward.log import audit, commits, integrity
from lakeward.log.codec import loads
from lakeward.maintain.doctor.findings import RESTORE, CheckedTable, Finding
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE


def versions(table: CheckedTable) -> Iterator[Finding]:
    """Check that versions have no gaps, and that the head refers to the newest of them."""
    with table.context.database.read() as session:
        head = table.head(session)
        first, newest = integrity.version_range(session, table.table_id)
        if first is None or newest is None:
            yield table.error("version-gap", f"The log has no versions of {table.name}.")
            return
        if newest != head.version:
            what = f"The head of {table.name} is version {head.version}, its newest is {newest}."
            yield table.error("head-version", what, version=head.version)
        last = commits.one(session, table.table_id, newest)
        if newest == head.version and last and last.timestamp_ms != head.timestamp_ms:
            what = f"The head of {table.name} has another time than version {newest}."
            yield table.error("head-time", what, version=newest)
        oldest = commits.one(session, table.table_id, first)
        if first > 0 and oldest is not None and not oldest.info.adopted:
            what = f"Versions 0 to {first - 1} of {table.name} are missing."
            yield table.error("version-gap", what, version=first)
        for before, after in integrity.version_gaps(session, table.table_id):
            missing = (
                f"Version {before + 1} of {table.name} is"
                if after == before + 2
                else f"Versions {before + 1} to {after - 1} of {table.name} are"
            )
            yield table.error("version-gap", f"{missing} missing.", version=before + 1)


def times(table: CheckedTable) -> Iterator[Finding]:
    """Check that every version has a later time than the version before."""
    with table.context.database.read() as session:
        for version, now, before in integrity.times_backwards(session, table.table_id):
            what = (
                f"Version {version} of {table.name} is not later than the one before it "
                f"({now} ms after {before} ms)."
            )
            yield table.error("time-order", what, version=version)


def definitions(table: CheckedTable) -> Iterator[Finding]:
    """Check that each version has one readable definition, and the head refers to the last."""
    with table.context.database.read() as session:
        head = table.head(session)
        rows = table.definition_rows(session)
        first, _ = integrity.version_range(session, table.table_id)
        named = integrity.defining_versions(session, table.table_id)
    expected = first
    for number, row in enumerate(rows):
        if row.definition_id != number or row.from_version != expected:
            what = (
                f"Definition {row.definition_id} of {table.name} holds from version "
                f"{row.from_version}; it should be number {number}, from version {expected}."
            )
            yield table.error("definition-range", what, version=row.from_version)
        if named.pop(row.from_version, None) != row.definition_id:
            what = f"Version {row.from_version} of {table.name} does not name its new definition."
            yield table.error("definition-range", what, version=row.from_version)
        expected = row.until_version
    if expected != LIVE or not rows or rows[-1].definition_id != head.definition_id:
        what = f"The newest version of {table.name} has no definition that is current."
        yield table.error("definition-range", what, version=head.version)
    for version, number in named.items():
        what = f"Version {version} of {table.name} names definition {number}, which is not there."
        yield table.error("definition-range", what, version=version)
    yield from _bodies(table, [r.body for r in rows], guarded=head.guarded)


def file_ranges(table: CheckedTable) -> Iterator[Finding]:
    """Check that the versions that add and remove each file exist, in order, without overlap."""
    with table.context.database.read() as session:
        for path, added, removed in integrity.bad_file_ranges(session, table.table_id):
            until = "" if removed == LIVE else f" and removed by version {removed}"
            what = f"File {path!r} of {table.name} is added by version {added}{until}."
            mend = f"One of these versions does not exist, or they are out of order. {RESTORE}"
            yield table.error("file-range", what, mend, version=added)
        for path, added, again in integrity.files_added_twice(session, table.table_id):
            what = (
                f"File {path!r} of {table.name} is added by version {added} and again by "
                f"version {again}, while it is still live."
            )
            yield table.error("file-twice", what, version=again)


def applications(table: CheckedTable) -> Iterator[Finding]:
    """Check that application transactions belong to versions that exist."""
    with table.context.database.read() as session:
        for app_id, version in integrity.lost_applications(session, table.table_id):
            what = f"Application {app_id!r} recorded version {version}, which is not there."
            yield table.error("app-transaction", what, version=version)


def change_files(table: CheckedTable) -> Iterator[Finding]:
    """Check that change files belong to versions that exist."""
    with table.context.database.read() as session:
        for path, version in integrity.lost_change_files(session, table.table_id):
            what = f"Change file {path!r} is of version {version}, which is not there."
            yield table.error("change-file", what, version=version)


def audit_trail(table: CheckedTable) -> Iterator[Finding]:
    """Check that the audit trail is intact: no entry was changed, removed or inserted."""
    with table.context.database.read() as session:
        entry = audit.broken_at(session, table.head(session))
    if entry is not None:
        what = f"The audit trail of {table.name} is broken at entry {entry}."
        mend = (
            "Somebody changed the store past Lakeward. Compare with a backup to learn what, and "
            "restore it if the change was not meant."
        )
        yield table.error("audit-broken", what, mend)


def _bodies(table: CheckedTable, bodies: list[str], *, guarded: bool) -> Iterator[Finding]:
    kind = FORMATS[table.format]
    for number, body in enumerate(bodies):
        try:
            found = Definition.from_json(loads(body))
        except (AttributeError, LakewardError, LookupError, TypeError, ValueError) as error:
            what = f"Definition {number} of {table.name} cannot be read: {error!r}."
            yield table.error("definition-unreadable", what)
            continue
        if number < len(bodies) - 1 or kind.always_guarded:
            continue
        if kind.is_guarded(found) != guarded:
            first, second = ("guarded", "open") if guarded else ("open", "guarded")
            what = f"The head of {table.name} says {first}, its protocol says {second}."
            yield table.error("guard", what)
