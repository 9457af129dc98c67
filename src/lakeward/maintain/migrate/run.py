"""Runs a migration: adds files in batches, and each batch's version records its files.

The table's history shows which files were added, so an interrupted migration continues where it
stopped, and a finished one adds new files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import orjson
import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, LakewardError, StorageError, UnsupportedFeature
from lakeward.formats.registry import format_named
from lakeward.log import commits, heads
from lakeward.maintain.migrate.checksums import Checksums
from lakeward.maintain.migrate.source import Source, SourceFile
from lakeward.maintain.migrate.types import storable
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE
from lakeward.model.migration import ColumnCheck, Migration, MigrationMode
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.read import snapshot as snapshots
from lakeward.read.scan import read_files
from lakeward.write.commit.publications import current
from lakeward.write.plan.change import Operation
from lakeward.write.stage.added_files import check_rows, entry_in_place
from lakeward.write.tables import create as tables
from lakeward.write.transaction.lifecycle import Lifecycle

OPERATION: Final = "MIGRATE"
_BATCH_FILES: Final = 500
_BATCH_BYTES: Final = 512 * 2**20
Begin: TypeAlias = Callable[[], Lifecycle]
Progress: TypeAlias = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Asked:
    """The options of a migration."""

    source: Source
    name: TableName
    format: str
    mode: MigrationMode
    partition_by: tuple[str, ...]
    verify: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table: those of the source, in types that its format has."""
        if self.mode is MigrationMode.IN_PLACE:
            return self.source.schema
        has_small = not format_named(self.format).columns_by_id
        return storable(self.source.schema, has_small=has_small)


@dataclass(frozen=True)
class Migrator:
    """Migrates sources into a lake."""

    context: LakeContext
    begin: Begin

    def run(self, asked: Asked, *, dry_run: bool, progress: Progress | None) -> Migration:
        """Add new files, then compare table and source; refuse bad input before any write."""
        began = time.monotonic()
        source = asked.source
        definition = tables.define(
            asked.schema,
            asked.format,
            partition_by=list(asked.partition_by),
            properties={},
            constraints={},
            comment=None,
            guard=True,
        )
        if asked.mode is MigrationMode.IN_PLACE:
            self._check_in_place(asked)
        head, known, unfinished = self._known(asked, definition)
        is_complete = bool(known) and not unfinished
        files = {f.path: f for f in source.files}
        new = [f for f in source.files if f.path not in known]
        changed = [p for p, mark in known.items() if p in files and files[p].mark != mark]
        deleted = [p for p in known if p not in files]
        moved = [p for p in (*changed, *deleted) if p in unfinished]
        if moved:
            what = (
                f"{source.label} changed since its migration was interrupted:"
                f" {moved[0]} is not as it was taken in."
            )
            raise InvalidInput(what, hint=f"Drop {asked.name} and begin again.", files=moved)
        if source.rewrites and new and (changed or deleted):
            what = (
                f"{source.label} rewrote rows since its migration: {(changed + deleted)[0]} is not"
                " as it was taken in, and new files may have its rows again."
            )
            hint = "Migrate it to a new name."
            raise InvalidInput(what, hint=hint, files=[*changed, *deleted])
        shown = {f.name: str(f.type) for f in definition.schema}
        found = Migration(
            source=source.label,
            table=str(asked.name),
            format=asked.format,
            mode=asked.mode,
            state="planned" if dry_run else "nothing",
            columns=shown,
            partition_by=asked.partition_by,
            files=len(files),
            bytes=sum(f.size for f in files.values()),
            rows=sum(f.rows for f in files.values()),
            new_files=len(new),
            changed=tuple(sorted(changed)),
            deleted=tuple(sorted(deleted)),
            notes=self._notes(asked, is_complete=is_complete, is_there=head is not None),
        )
        if dry_run:
            return found
        is_new = head is None
        if is_new:
            self._created(asked)
        reach("migrate.created")
        done = 0
        batches = list(_batches(new))
        for number, batch in enumerate(batches):
            try:
                self._take_in(asked, batch, is_last=number == len(batches) - 1)
            except LakewardError:
                if is_new and not number:
                    self._unmake(asked.name)
                raise
            reach("migrate.taken")
            done += len(batch)
            if progress is not None:
                progress(done, len(new))
        if new:
            found = replace(found, state="done")
        if asked.verify and not changed and not deleted:
            found = replace(found, checks=self._compared(asked))
        version = current(self.context, asked.name).version
        return replace(found, version=version, seconds=time.monotonic() - began)

    def _created(self, asked: Asked) -> Head:
        return tables.create(
            self.context,
            asked.name,
            asked.schema,
            format=asked.format,
            partition_by=list(asked.partition_by),
            properties=None,
            policy=None,
            constraints=None,
            comment=None,
            guard=True,
        )

    def _unmake(self, name: TableName) -> None:
        """Drop the table that this run made, if nothing was added to it."""
        with suppress(LakewardError):
            if current(self.context, name).version == 0:
                tables.drop(self.context, name)

    def _check_in_place(self, asked: Asked) -> None:
        if self.context.storage.is_remote:
            what = "Files can stay in place only where the warehouse is on the same disk."
            raise UnsupportedFeature(what, hint='Use mode="copy".')
        directory = asked.source.check_in_place()
        if asked.partition_by != asked.source.partition_by:
            what = (
                f"{directory} is partitioned by {', '.join(asked.source.partition_by) or 'nothing'}"
                f" and shall be by {', '.join(asked.partition_by) or 'nothing'}."
            )
            raise InvalidInput(what, hint='Use mode="copy".', parameter="partition_by")
        if asked.partition_by and format_named(asked.format).columns_by_id:
            what = "Values that only directories have cannot become columns of an Iceberg table."
            raise UnsupportedFeature(what, hint='Use mode="copy", or format="delta".')

    def _known(
        self, asked: Asked, wanted: Definition
    ) -> tuple[Head | None, dict[str, str], set[str]]:
        """Return the table or None, its files with their marks, and those of an unfinished run."""
        with self.context.database.read() as session:
            head = heads.find(session, asked.name)
            if head is None:
                return None, {}, set()
            found = commits.newest_of(session, head.table_id, OPERATION, limit=LIVE)
            made = self.context.definition(session, head)
        known: dict[str, str] = {}
        unfinished: set[str] = set()
        is_finished = False
        for commit in found:
            parameters = commit.info.parameters
            if parameters.get("source") != asked.source.label:
                what = f"Table {asked.name} was migrated from {parameters.get('source')}."
                raise InvalidInput(what, hint="Choose another name.", table=str(asked.name))
            files = orjson.loads(parameters.get("files", "{}"))
            known = files | known
            is_finished = is_finished or parameters.get("complete") == "true"
            if not is_finished:
                unfinished |= files.keys()
        # An interrupted migration may have made the table and added nothing yet.
        is_like = head.format == asked.format and _shape(made) == _shape(wanted)
        if not found and (head.version > 0 or not is_like):
            what = f"There is a table {asked.name} already, which no migration made."
            raise InvalidInput(what, hint="Choose another name.", table=str(asked.name))
        return head, known, unfinished

    def _take_in(self, asked: Asked, batch: Sequence[SourceFile], *, is_last: bool) -> None:
        lifecycle = self.begin()
        try:
            with lifecycle.operation(asked.name) as member:
                if asked.mode is MigrationMode.IN_PLACE:
                    directory = asked.source.check_in_place()
                    root = str(Path(directory).resolve())
                    found = [
                        entry_in_place(self.context, member.change, root, f.path, f.size)
                        for f in batch
                    ]
                    check_rows(self.context.storage, member.change, found)
                    member.add(found)
                else:
                    member.add(member.stage(self._rows(asked.source, batch)))
                files = orjson.dumps({f.path: f.mark for f in batch}).decode()
                parameters = {
                    "source": asked.source.label,
                    "mode": asked.mode.value,
                    "files": files,
                    "complete": "true" if is_last else "false",
                }
                member.change.operations[:] = [Operation(OPERATION, parameters)]
                origin = asked.source.origin()
                if origin is None:
                    lifecycle.flows.files(member, asked.source.paths(batch))
                else:
                    lifecycle.flows.rows(str(asked.name), member, origin)
            lifecycle.commit()
        except BaseException:
            lifecycle.rollback()
            raise

    def _rows(self, source: Source, batch: Sequence[SourceFile]) -> Iterator[pa.Table]:
        for file in batch:
            count = 0
            for table in source.read(file):
                count += table.num_rows
                yield table
            if count != file.rows:
                what = f"File {file.path} has {count} rows, and {file.rows} were expected."
                raise StorageError(what, path=file.path)

    def _compared(self, asked: Asked) -> tuple[ColumnCheck, ...]:
        plain = [p for p in asked.partition_by if p in asked.source.schema.names]
        source, table = Checksums(plain), Checksums(plain)
        for file in asked.source.files:
            for rows in asked.source.read(file):
                source.add(rows)
        head = current(self.context, asked.name)
        with self.context.database.read() as session:
            snapshot = snapshots.latest(self.context, session, head)
        reader = read_files(self.context.storage, head, snapshot.definition, snapshot.plan())
        names = asked.source.schema.names
        for batch in reader:
            rows = pa.Table.from_batches([batch]).select(names)
            table.add(_as(rows, asked.source.schema))
        return source.compared(table)

    def _notes(self, asked: Asked, *, is_complete: bool, is_there: bool) -> tuple[str, ...]:
        notes = []
        if is_there and not is_complete:
            notes.append("A migration that was interrupted is continued.")
        if asked.mode is MigrationMode.IN_PLACE:
            notes.append("Files stay where they are: do not move or delete them.")
        return tuple(notes)


def _shape(definition: Definition) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the columns of a table with their types, and its partitioning."""
    columns = [(f.name, str(f.type)) for f in definition.schema]
    return columns, list(definition.partitioning)


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast rows of the table to the types of the source."""
    columns = []
    for field in schema:
        column = rows.column(field.name)
        columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.table(columns, names=schema.names)


def _batches(files: Sequence[SourceFile]) -> Iterator[list[SourceFile]]:
    some: list[SourceFile] = []
    size = 0
    for file in files:
        if some and (len(some) >= _BATCH_FILES or size + file.size > _BATCH_BYTES):
            yield some
            some, size = [], 0
        some.append(file)
        size += file.size
    if some:
        yield some
