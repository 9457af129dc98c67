"""Clones: new tables that use the files of another table's version without copying them.

The clone's log refers to the files by their full addresses. The store records the source in the
database transaction that creates the table, so that vacuum of the source keeps the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import VersionNotFound
from lakeward.formats.registry import format_of
from lakeward.log import branches, commits, domains, heads, policies, retired
from lakeward.log.codec import loads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from lakeward.model.policy.rules import Rule
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.keys.guards import Guard
from lakeward.write.keys.reactions import check_foreign_keys
from lakeward.write.tables.create import Beginning, make
from lakeward.write.tables.policies import check_clone

_OPERATION: Final = "CLONE"
_MANY: Final = 1000
"""A clone with more files than this gets a checkpoint immediately."""


class _Changed(Exception):
    """A policy of the clone's name, or a table that it refers to, changed since the check."""


def clone(context: LakeContext, source: TableSnapshot, name: TableName) -> Head:
    """Create a table that uses the files of a snapshot.

    Raises:
        AlreadyExists: The name is in use.
        ConstraintViolation: Rows violate a constraint of a policy that the name matches, or refer
            to rows that are no longer there.
        InvalidInput: A foreign key refers to a table or a unique key that is no longer there.
        UnsupportedFeature: The source uses a feature that a clone cannot keep.
        VersionNotFound: The source's version was vacuumed meanwhile.
    """
    checked, guards = _check(context, source, name)
    held = source.plan()
    kind = format_of(source.log_head)
    definition, files = kind.clone(
        context, source.log_head, source.version, source.definition, held
    )

    def note(session: Session, new: Head) -> None:
        # The caller holds the lock under which policies are set.
        if policies.for_table(session, name) != checked:
            raise _Changed
        # All these tables are locked, the source too, whose vacuum takes this lock.
        for guard in guards:
            if not guard.holds(session, heads.get(session, guard.head.name)):
                raise _Changed
        if commits.one(session, source.log_head.table_id, source.version) is None:
            what = f"Table {source.name} has no version {source.version} any more."
            raise VersionNotFound(what, table=source.name, version=source.version)
        retired.check(session, source.log_head, source.version)
        branches.insert_clone(session, new.table_id, source.log_head.table_id, source.version)

    parameters = {
        "source": source.name,
        "sourceId": source.log_head.uuid,
        "sourceVersion": str(source.version),
    }
    with context.database.read() as session:
        named = domains.at(session, source.log_head.table_id, source.version)
    begin = Beginning(_OPERATION, parameters, tuple(files), dict(named), (source.log_head,), note)
    made: Head | None = None
    while made is None:
        try:
            made = make(context, name, source.log_head.format, definition, guard=True, begin=begin)
        except _Changed:
            checked, guards = _check(context, source, name)
    if len(files) > _MANY:
        kind.checkpoint(context, made, made.version, definition)
    return made


def _check(
    context: LakeContext, source: TableSnapshot, name: TableName
) -> tuple[tuple[Rule, ...], Sequence[Guard]]:
    """Check the rows of a snapshot; return the policies and conditions that must still hold."""
    head = replace(source.log_head, version=source.version, timestamp_ms=source.timestamp_ms)
    return check_clone(context, source, name), check_foreign_keys(context, head, source.definition)


def restore_clones(context: LakeContext) -> None:
    """Record the sources of all clones again, from the first commits of the clones."""
    with context.database.write() as session:
        known = {h.uuid: h.table_id for h in heads.all_heads(session)}
        for table_id, info in branches.clones(session):
            parameters: dict[str, Any] = loads(info).get("parameters", {})
            source = known.get(parameters.get("sourceId", ""))
            version = parameters.get("sourceVersion", "")
            if source is not None and str(version).isdecimal():
                branches.insert_clone(session, table_id, source, int(version))
