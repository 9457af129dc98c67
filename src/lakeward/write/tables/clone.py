"""Clones: new tables that stand on the files of another one's version, which nobody copies.

The clone's log names the files by their full addresses. That it stands on them is noted in the same
database transaction that makes the table, so whoever cleans up the source knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import UnsupportedFeature, VersionNotFound
from lakeward.formats.delta.branch import absolute, branch_definition, check_branchable
from lakeward.formats.delta.protocol import ICT_PROPERTY, guarded, is_writable
from lakeward.formats.iceberg.publication import full_path
from lakeward.formats.iceberg.writing import check_writable
from lakeward.log import branches, commits, heads
from lakeward.log.codec import loads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.names import TableName
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.commit import iceberg
from lakeward.write.commit.publish import write_checkpoint
from lakeward.write.tables.make import Beginning, make

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
    is_iceberg = source.head.format == iceberg.FORMAT
    make_it = _iceberg if is_iceberg else _delta
    definition, files = make_it(context, source, held)

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
    if len(files) > _MANY and not is_iceberg and is_writable(definition):
        write_checkpoint(context, made, made.version, definition)
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


def _delta(
    context: LakeContext, source: TableSnapshot, held: Sequence[LoggedFile]
) -> tuple[Definition, list[DataFile]]:
    check_branchable(source.definition, source.name)
    plain = branch_definition(source.definition)
    definition = replace(
        plain,
        protocol=guarded(plain.protocol),
        properties={**plain.properties, ICT_PROPERTY: "true"},
    )
    root = context.storage.uri(source.head.location)
    return definition, [absolute(f.file, root, definition) for f in held]


def _iceberg(
    context: LakeContext, source: TableSnapshot, held: Sequence[LoggedFile]
) -> tuple[Definition, list[DataFile]]:
    name = source.name
    check_writable(source.definition, name)
    with context.database.read() as session:
        first = commits.one(session, source.head.table_id, 0)
    if first is None or first.info.adopted:
        what = f"Table {name} was made by another engine; such Iceberg tables have no clones yet."
        raise UnsupportedFeature(what, hint="Copy its rows into a new table.", table=name)
    if any(f.file.deletion_vector is not None for f in held):
        what = f"Version {source.version} of {name} has delete files, which cannot be shared."
        raise UnsupportedFeature(what, hint="Rewrite its files first.", table=name)
    root = context.storage.uri(source.head.location)
    return source.definition, [replace(f.file, path=full_path(f.file, root)) for f in held]
