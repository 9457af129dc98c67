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
from lakeward.errors import (
    InvalidInput,
    LakewardError,
    SchemaMismatch,
    StorageError,
    UnsupportedFeature,
)
from lakeward.formats.registry import format_named
from lakeward.maintain.migrate.checksums import Checksums
from lakeward.maintain.migrate.recorded import (
    OPERATION,
    Recorded,
    check_alone,
    recorded,
)
from lakeward.maintain.migrate.source import Source, SourceFile
from lakeward.maintain.migrate.types import storable
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
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
    partition_by: tuple[str, ...] | None
    verify: bool

    @property
    def by(self) -> tuple[str, ...]:
        """The partitioning of the table: that of the source unless one is given."""
        return self.source.partition_by if self.partition_by is None else self.partition_by

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
        earlier = recorded(self.context, asked.name)
        if earlier is not None and earlier.commits:
            asked = self._continued(asked, earlier)
            definition = earlier.definition
        else:
            definition = self._defined(asked, earlier)
        if asked.mode is MigrationMode.IN_PLACE:
            self._check_in_place(asked)
        known = {} if earlier is None else earlier.marks
        files = {f.path: f for f in source.files}
        new = [f for f in source.files if f.path not in known]
        changed = [p for p, mark in known.items() if p in files and files[p].mark != mark]
        deleted = [p for p in known if p not in files]
        if earlier is not None:
            self._check_unchanged(asked, earlier, changed + deleted, has_new=bool(new))
        found = Migration(
            source=source.label,
            table=str(asked.name),
            format=asked.format,
            mode=asked.mode,
            state="planned" if dry_run else "nothing",
            columns={f.name: str(f.type) for f in definition.schema},
            partition_by=asked.by,
            files=len(files),
            bytes=sum(f.size for f in files.values()),
            rows=sum(f.rows for f in files.values()),
            new_files=len(new),
            changed=tuple(sorted(changed)),
            deleted=tuple(sorted(deleted)),
            notes=_notes(asked, earlier),
        )
        if dry_run:
            return found
        # A run that adds no file records, too, that the migration is complete.
        is_complete = earlier is not None and earlier.is_complete
        batches = list(_batches(new)) or ([] if is_complete else [[]])
        if batches:
            self._take_in_all(asked, batches, earlier, progress)
            found = replace(found, state="done")
        if asked.verify and not changed and not deleted:
            found = replace(found, checks=self._compared(asked))
        version = current(self.context, asked.name).version
        return replace(found, version=version, seconds=time.monotonic() - began)

    def _continued(self, asked: Asked, earlier: Recorded) -> Asked:
        """Return the options for a table that was migrated before; raise if they differ from it."""
        earlier.check(asked.source.label, asked.format, asked.mode)
        table, made = str(asked.name), earlier.definition
        columns = asked.source.schema.names
        missing = next((n for n in columns if n not in made.schema.by_name), None)
        if missing is not None:
            what = f"Table {table} lacks column {missing!r} of {asked.source.label}."
            hint = "Add the column to the table, or migrate to a new name."
            raise SchemaMismatch(what, hint=hint, table=table, column=missing)
        own = made.partitioning
        if asked.partition_by is not None and self._defined(asked, None).partitioning != own:
            what = f"Table {table} is partitioned by {', '.join(own) or 'nothing'}."
            hint = "Leave partition_by out, or migrate to a new name."
            raise InvalidInput(what, hint=hint, table=table, parameter="partition_by")
        return replace(asked, partition_by=tuple(own))

    def _defined(self, asked: Asked, empty: Recorded | None) -> Definition:
        """Return the definition of a table to be made, or that an interrupted migration made."""
        definition = tables.define(
            asked.schema,
            asked.format,
            partition_by=list(asked.by),
            properties={},
            constraints={},
            comment=None,
            guard=True,
        )
        if empty is not None:
            is_like = empty.head.format == asked.format
            is_like = is_like and _shape(empty.definition) == _shape(definition)
            if empty.head.version > 0 or not is_like:
                what = f"There is a table {asked.name} already, which no migration made."
                raise InvalidInput(what, hint="Choose another name.", table=str(asked.name))
        return definition

    def _check_unchanged(
        self, asked: Asked, earlier: Recorded, others: Sequence[str], *, has_new: bool
    ) -> None:
        """Raise `InvalidInput` if rows would be added twice because source files changed."""
        label = asked.source.label
        moved = [p for p in others if p in earlier.unfinished]
        if moved:
            what = (
                f"{label} changed since its migration was interrupted:"
                f" {moved[0]} is not as it was taken in."
            )
            raise InvalidInput(what, hint=f"Drop {asked.name} and begin again.", files=moved)
        if asked.source.rewrites and has_new and others:
            what = (
                f"{label} rewrote rows since its migration: {others[0]} is not"
                " as it was taken in, and new files may have its rows again."
            )
            raise InvalidInput(what, hint="Migrate it to a new name.", files=list(others))

    def _take_in_all(
        self,
        asked: Asked,
        batches: Sequence[Sequence[SourceFile]],
        earlier: Recorded | None,
        progress: Progress | None,
    ) -> None:
        """Add batches of files; if the first one fails, drop the table that this run made."""
        head = self._created(asked) if earlier is None else earlier.head
        reach("migrate.created")
        all_paths = {f.path for batch in batches for f in batch}
        done = 0
        for number, batch in enumerate(batches):
            try:
                version = self._take_in(
                    asked, batch, all_paths, head, is_last=number == len(batches) - 1
                )
            except Exception:
                if earlier is None and not number:
                    self._unmake(asked.name)
                raise
            reach("migrate.taken")
            head = replace(head, version=version)
            done += len(batch)
            if progress is not None:
                progress(done, len(all_paths))

    def _created(self, asked: Asked) -> Head:
        return tables.create(
            self.context,
            asked.name,
            asked.schema,
            format=asked.format,
            partition_by=list(asked.by),
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
        if asked.by != asked.source.partition_by:
            what = (
                f"{directory} is partitioned by {', '.join(asked.source.partition_by) or 'nothing'}"
                f" and shall be by {', '.join(asked.by) or 'nothing'}."
            )
            raise InvalidInput(what, hint='Use mode="copy".', parameter="partition_by")
        if asked.by and format_named(asked.format).columns_by_id:
            what = "Values that only directories have cannot become columns of an Iceberg table."
            raise UnsupportedFeature(what, hint='Use mode="copy", or format="delta".')

    def _take_in(
        self,
        asked: Asked,
        batch: Sequence[SourceFile],
        all_paths: set[str],
        head: Head,
        *,
        is_last: bool,
    ) -> int:
        """Commit a batch of files; return the version.

        `all_paths` are those of the whole run, and `head` is the table as the run knows it.
        """
        lifecycle = self.begin()
        own = lifecycle.transaction_id
        # In the session that commits, so that no other run can add a file in between.
        lifecycle.on_ratify.append(
            lambda session: check_alone(session, head, all_paths, asked.source.label, own)
        )
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
                elif batch:
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
            return lifecycle.commit().versions[str(asked.name)]
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
        plain = [p for p in asked.by if p in asked.source.schema.names]
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


def _notes(asked: Asked, earlier: Recorded | None) -> tuple[str, ...]:
    notes = []
    if earlier is not None and not earlier.is_complete:
        notes.append("A migration that was interrupted is continued.")
    if asked.mode is MigrationMode.IN_PLACE:
        notes.append("Files stay where they are: do not move or delete them.")
    return tuple(notes)


def _shape(definition: Definition) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the columns of a table with their types, and its partitioning."""
    columns = [(f.name, str(f.type)) for f in definition.schema]
    return columns, list(definition.partitioning)


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast rows of the table to the types of the source.

    A column with a value that the source's type does not have stays as it is: its checksum differs.
    """
    columns = []
    for field in schema:
        column = rows.column(field.name)
        if not column.type.equals(field.type):
            with suppress(pa.ArrowException):
                column = column.cast(field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, names=schema.names)


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
