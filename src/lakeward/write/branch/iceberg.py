"""A branch of an Iceberg table: a metadata document that begins with the current snapshot.

The document sends all new data and metadata into the branch's directory; the table's own metadata
and pointer do not change. Engines open a named branch by a catalog `branch_<name>` in the lake's
database, and move its pointer; the executor of a transaction keeps its branches' documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakeward.errors import CorruptTable, UnsupportedFeature
from lakeward.formats.iceberg import metadata
from lakeward.formats.iceberg.branch import (
    altered_document,
    changes_rows,
    check_branchable,
    check_row_ids,
    check_same,
    first_document,
    merge_metrics,
)
from lakeward.formats.iceberg.definition import new_document
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document, parse
from lakeward.formats.iceberg.listing import ManifestReader, difference, vector_id
from lakeward.formats.net import Net
from lakeward.log import catalog, files, heads
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.steps import reach
from lakeward.read.scan import read_files
from lakeward.write.branch.base import Branch, Differ, NewRows
from lakeward.write.plan.change import Change, Operation


@dataclass
class IcebergBranch(Branch):
    """A working copy of one version of one Iceberg table; it always has the base's files."""

    _first: Document | None = field(default=None, init=False)
    # The first document, before anything was altered.
    _defined: Document | None = field(default=None, init=False)

    @classmethod
    def check(cls, definition: Definition, table: str) -> None:
        """Raise UnsupportedFeature for a version of the format that the lake cannot commit."""
        check_branchable(definition, table)

    def _write_first(self, owner: str, base: Iterable[LoggedFile] | None) -> None:  # noqa: ARG002
        # No column requires a value here: the transaction checks that when it commits.
        self._put(optional=True)
        self.is_whole = True

    def begin(self, session: Session) -> None:
        """Write the first document and enter the table into the named branch's catalog."""
        catalog.enter_branch(session, str(self.name), self.head.name, self._put().location)

    @property
    def is_made(self) -> bool:
        """Whether engines find the table in the branch's catalog."""
        return self._pointer() is not None

    def make(self, owner: str) -> None:  # noqa: ARG002
        """Finish a named branch whose process stopped while it made the branch.

        Raises `CorruptTable` if the table got a new version since.
        """
        with self.context.database.write() as session:
            newest = heads.ever_by_id(session, self.head.table_id).version
            if newest != self.head.version:
                what = f"The branch {self.name!r} of table {self.head.name} was never finished."
                raise CorruptTable(what, hint="Drop it, and make it anew.", branch=self.name)
            self.begin(session)

    @property
    def catalog(self) -> str | None:
        """The catalog by which engines open a named branch."""
        return None if self.name is None else catalog.branch_catalog(self.name)

    @property
    def newest_document(self) -> str | None:
        """The newest metadata document: of a named branch, where its catalog points to."""
        if self.name is None:
            return self.document
        found = self._pointer()
        if found is None:
            what = f"Somebody took table {self.head.name} out of the branch {self.name!r}."
            raise CorruptTable(what, hint="Drop the branch.", branch=self.name)
        return found

    @property
    def version(self) -> int:
        """How many documents the branch has had after its first."""
        name = str(self.newest_document).rpartition("/")[2]
        return int(name.partition("-")[0])

    def alter(self, definition: Definition) -> None:
        """Give the branch another definition, by a document that follows its newest one."""
        location = str(self.document)
        before = parse(location, metadata.reader(self.context)(location))
        at_ms = max(now_ms(), before.updated_ms)
        found = altered_document(before, self.location, self.head, definition, at_ms)
        self._write(found)
        self.definition, self._defined, self.document = definition, found, found.location

    def read(self, columns: Sequence[str] | None, where: Expression | None) -> pa.Table:
        """The rows on the branch now."""
        net = self.look()
        removed = {(f.added, f.ordinal) for f in net.removed}
        with self.context.database.read() as session:
            base = files.at(session, self.head.table_id, self.head.version)
            kept = [f for f in base if (f.added, f.ordinal) not in removed]
        new = [LoggedFile(f, self.head.version + 1, n) for n, f in enumerate(net.added)]
        return read_files(
            self.context.storage,
            self.head,
            self.definition,
            [*kept, *new],
            columns=columns,
            where=where,
        ).read_all()

    def new_rows(self, new: Sequence[DataFile]) -> NewRows:
        """The files themselves: Spark writes every column into them, partition columns too."""
        addresses = [f"{self.root}/{f.path}" for f in new]
        # Files written before an alteration have other columns than later ones.
        by_id = None if self._defined is None else self.definition.schema
        return NewRows("parquet", addresses, by_id)

    def look(self) -> Net:
        """The net effect so far. Raises `UnsupportedFeature` if the columns were changed."""
        read, location = metadata.reader(self.context), str(self.newest_document)
        return self._between(self._first_document(), parse(location, read(location)), read)

    def _between(self, first: Document, newest: Document, read: Callable[[str], bytes]) -> Net:
        """The net effect of the commits from one document to another."""
        check_same(self._defined or first, newest, str(self.head.name))
        source = ManifestReader(read, self.root)
        before, after = (source.manifests(d.current) for d in (first, newest))
        added, gone = difference(source, newest, self.definition, before, after)
        if any(file.deletion_vector is not None for file in added):
            # The lake publishes data files only, so the rows would come back for other engines.
            what = f"Rows of table {self.head.name} were deleted by delete files."
            hint = "Set write.delete.mode, write.update.mode and write.merge.mode to copy-on-write."
            raise UnsupportedFeature(what, hint=hint, table=str(self.head.name))
        removed, changed = self._logged(gone), changes_rows(first, newest)
        net = Net(
            added=tuple(added),
            removed=tuple(removed),
            data_change=changed,
            looks=bool(removed) and changed,
            merged=merge_metrics(first, newest),
        )
        check_row_ids(first, newest, before.values(), net, str(self.head.name))
        return net

    def net(self, *, evolve: bool = False, differ: Differ | None = None) -> Net:  # noqa: ARG002
        """The net effect of the branch's commits; the files that it adds are synced to disk."""
        net = self.look()
        self.context.storage.sync_files([f"{self.head.location}/{f.path}" for f in net.added])
        reach("branch.netted")
        return net

    def fill(self, change: Change, net: Net, operations: Sequence[Operation] = ()) -> None:
        """Make the branch's net effect part of a change of its table."""
        if self.name is not None:
            operations = [Operation("PUBLISH BRANCH", {"branch": self.name})]
        elif [o.name for o in operations] == ["MERGE"]:
            operations = [replace(operations[0], metrics=_merged(net))]
        super().fill(change, net, operations)

    def _put(self, *, optional: bool = False) -> Document:
        """Write the first document; with `optional`, columns accept nulls there."""
        base = (
            self._new() if self.head.version < 0 else metadata.document_of(self.context, self.head)
        )
        document = first_document(base, self.location, optional=optional)
        self.context.storage.make_directory(f"{self._place}/{METADATA_DIRECTORY}")
        self._write(document)
        reach("branch.opened")
        self._first, self.document = document, document.location
        return document

    def _write(self, document: Document) -> None:
        name = document.location.rpartition("/")[2]
        self.context.storage.put(f"{self._place}/{METADATA_DIRECTORY}/{name}", document.encode())

    def _new(self) -> Document:
        """The document of a table that its transaction makes."""
        return new_document(self.head, self.definition, self.root, at_ms=now_ms(), created_by={})

    def _first_document(self) -> Document:
        """The document that the branch began with, whose name begins with a zero."""
        if self._first is None:
            listed = self.context.storage.listing(f"{self._place}/{METADATA_DIRECTORY}")
            names = (f.path.rpartition("/")[2] for f in listed)
            name = next((n for n in names if n.startswith("00000-")), None)
            if name is None:
                what = f"The first metadata document of the branch {self.name!r} is missing."
                raise CorruptTable(what, hint="Drop the branch.", branch=self.name)
            full = f"{self.location}/{METADATA_DIRECTORY}/{name}"
            self._first = parse(full, metadata.reader(self.context)(full))
        return self._first

    def _pointer(self) -> str | None:
        with self.context.database.read() as session:
            return catalog.branch_pointer(session, str(self.name), self.head.name)

    def _logged(self, gone: Sequence[DataFile]) -> list[LoggedFile]:
        out: list[LoggedFile] = []
        with self.context.database.read() as session:
            for file in gone:
                vector = vector_id(file.deletion_vector)
                known = files.at_path(session, self.head.table_id, self.head.version, file.path)
                out += [f for f in known if vector_id(f.file.deletion_vector) == vector]
        if len(out) != len(gone):
            message = f"the branch of {self.head.name} removes files that the log does not have"
            raise AssertionError(message)
        return out


def _merged(net: Net) -> Mapping[str, int]:
    """Metrics of a merge that agree with the rows of its files; none otherwise."""
    before = [f.file.live_rows for f in net.removed]
    after = [f.live_rows for f in net.added]
    if None in before or None in after:
        return {}
    more = sum(n or 0 for n in after) - sum(n or 0 for n in before)
    # Spark counts no rows of a merge that only inserts.
    none = dict.fromkeys(("numTargetRowsUpdated", "numTargetRowsDeleted"), 0)
    found = net.merged if net.removed else {"numTargetRowsInserted": more, **none}
    if not found or found["numTargetRowsInserted"] - found["numTargetRowsDeleted"] != more:
        return {}
    return found
