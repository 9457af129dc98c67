"""Clones: new tables that stand on the files of another one's version, which nobody copies.

The clone's log names the files by their full addresses. That it stands on them is noted in the same
database transaction that makes the table, so whoever cleans up the source knows.
"""

from __future__ import annotations

from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import VersionNotFound
from lakeward.formats.registry import format_of
from lakeward.log import branches, commits, heads
from lakeward.log.codec import loads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.tables.create import Beginning, make

_OPERATION: Final = "CLONE"
_MANY: Final = 1000
"""From how many files on readers are better served by a checkpoint at once."""


def clone(context: LakeContext, source: TableSnapshot, name: TableName) -> Head:
    """Make a table of the files of a snapshot.

    Raises:
        AlreadyExists: The name is taken.
        UnsupportedFeature: The source uses what a clone could not keep right.
        VersionNotFound: The source's version was cleaned up meanwhile.
    """
    held = source.plan()
    kind = format_of(source.head)
    definition, files = kind.clone(context, source.head, source.version, source.definition, held)

    def note(session: Session, new: Head) -> None:
        # Whoever cleans up the source does so under this lock, too.
        heads.lock(session, source.head.table_id, source.head.name)
        if commits.one(session, source.head.table_id, source.version) is None:
            what = f"Table {source.name} has no version {source.version} any more."
            raise VersionNotFound(what, table=source.name, version=source.version)
        branches.insert_clone(session, new.table_id, source.head.table_id, source.version)

    told = {
        "source": source.name,
        "sourceId": source.head.uuid,
        "sourceVersion": str(source.version),
    }
    begin = Beginning(_OPERATION, told, tuple(files), note)
    made = make(context, name, source.head.format, definition, guard=True, begin=begin)
    if len(files) > _MANY:
        kind.checkpoint(context, made, made.version, definition)
    return made


def restore_clones(context: LakeContext) -> None:
    """Note again what clones stand on, as far as their own logs tell."""
    with context.database.write() as session:
        known = {h.uuid: h.table_id for h in heads.all_heads(session)}
        for table_id, info in branches.clones(session):
            told: dict[str, Any] = loads(info).get("parameters", {})
            source, version = known.get(told.get("sourceId", "")), told.get("sourceVersion", "")
            if source is not None and str(version).isdecimal():
                branches.insert_clone(session, table_id, source, int(version))
