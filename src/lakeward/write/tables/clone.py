"""Clones: new tables that use the files of another table's version without copying them.

The clone's log names the files by their full addresses. The log records their source in the
database transaction that creates the table, so that cleaning up the source keeps the files.
"""

from __future__ import annotations

from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import VersionNotFound
from lakeward.formats.registry import format_of
from lakeward.log import branches, commits, domains, heads, retired
from lakeward.log.codec import loads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.tables.create import Beginning, make
from lakeward.write.tables.policies import check_clone

_OPERATION: Final = "CLONE"
_MANY: Final = 1000
"""From how many files on readers are better served by a checkpoint at once."""


def clone(context: LakeContext, source: TableSnapshot, name: TableName) -> Head:
    """Create a table that uses the files of a snapshot.

    Raises:
        AlreadyExists: The name is taken.
        ConstraintViolation: Rows violate a constraint of a policy that the name matches.
        UnsupportedFeature: The source uses a feature that a clone cannot keep.
        VersionNotFound: The source's version was cleaned up meanwhile.
    """
    check_clone(context, source, name)
    held = source.plan()
    kind = format_of(source.log_head)
    definition, files = kind.clone(
        context, source.log_head, source.version, source.definition, held
    )

    def note(session: Session, new: Head) -> None:
        # Cleaning up the source takes this lock, too.
        heads.lock(session, source.log_head.table_id, source.log_head.name)
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
    begin = Beginning(_OPERATION, parameters, tuple(files), dict(named), note)
    made = make(context, name, source.log_head.format, definition, guard=True, begin=begin)
    if len(files) > _MANY:
        kind.checkpoint(context, made, made.version, definition)
    return made


def restore_clones(context: LakeContext) -> None:
    """Record the sources of clones again, as far as their own logs name them."""
    with context.database.write() as session:
        known = {h.uuid: h.table_id for h in heads.all_heads(session)}
        for table_id, info in branches.clones(session):
            parameters: dict[str, Any] = loads(info).get("parameters", {})
            source = known.get(parameters.get("sourceId", ""))
            version = parameters.get("sourceVersion", "")
            if source is not None and str(version).isdecimal():
                branches.insert_clone(session, table_id, source, int(version))
