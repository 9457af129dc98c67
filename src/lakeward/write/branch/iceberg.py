"""A branch of an Iceberg table: a metadata document that begins with the current snapshot.

The document directs all new data and metadata into the branch's directory; the table's metadata
and pointer do not change. Engines open a named branch in the catalog `branch_<name>` in the lake's
database, and update its pointer there. For branches of a transaction, the executor stores which
document is the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakeward.engines.spark.paths import exact
from lakeward.errors import CorruptTable, UnsupportedFeature
from lakeward.formats.iceberg import metadata
from lakeward.formats.iceberg.branch import (
    altered_document,
    changes_rows,
    check_branchable,
    check_row_ids,
    check_same,
    evolved,
    first_document,
    merge_metrics,
    numbered_document,
)
from lakeward.formats.iceberg.definition import new_document
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document, parse
from lakeward.formats.iceberg.listing import ManifestReader, difference, vector_id
from lakeward.formats.iceberg.row_ids import ids_of
from lakeward.formats.net import Net
from lakeward.log import catalog, files, heads
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.constraints import is_tolerant
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.steps import reach
from lakeward.read.scan import read_files
from lakeward.write.branch.base import Branch, Differ, NewRows
from lakeward.write.branch.origins import find_origins
from lakeward.write.plan.change import Change, Operation
from lakeward.write.plan.origins import Origins


@dataclass
class IcebergBranch(Branch):
    """A working copy of one version of one Iceberg table, always with the files of that version."""

    _first: Document | None = field(default=None, init=False)
    # The document of the last alteration, if there was one.
    _defined: Document | None = field(default=None, init=False)
    # Whether rows have ids on the branch that the table does not have.
    _has_own_ids: bool = field(default=False, init=False)

    @classmethod
    def check(cls, definition: Definition, table: str) -> None:
        """Raise `UnsupportedFeature` for a format version that Lakeward cannot commit."""
        check_branchable(definition, table)

    def _write_first(self, owner: str, base: Iterable[LoggedFile] | None) -> None:  # noqa: ARG002
        # No column requires a value here: the transaction checks that when it commits.
        self._put(optional=True)
        self.is_whole = True

    def begin(self, session: Session) -> None:
        """Write the first document and add the table to the named branch's catalog."""
        catalog.enter_branch(session, str(self.name), self.head.name, self._put().location)

    @property
    def is_made(self) -> bool:
        """Whether the named branch's catalog contains the table."""
        return self._pointer() is not None

    def make(self, owner: str) -> None:  # noqa: ARG002
        """Finish a named branch whose process ended while it made the branch.

        Raise `CorruptTable` if the table got a new version since.
        """
        with self.context.database.write() as session:
            newest = heads.ever_by_id(session, self.head.table_id).version
            if newest != self.head.version:
                what = f"The branch {self.name!r} of table {self.head.name} was never finished."
                raise CorruptTable(what, hint="Drop it, and make it anew.", branch=self.name)
            self.begin(session)

    @property
    def catalog(self) -> str | None:
        """The catalog in which engines find a named branch; None for a branch of a transaction."""
        return None if self.name is None else catalog.branch_catalog(self.name)

    @property
    def newest_document(self) -> str | None:
        """The address of the newest metadata document; that of a named branch is in its catalog."""
        if self.name is None:
            return self.document
        found = self._pointer()
        if found is None:
            what = f"Somebody took table {self.head.name} out of the branch {self.name!r}."
            raise CorruptTable(what, hint="Drop the branch.", branch=self.name)
        return found

    @property
    def version(self) -> int:
        """The number of the branch's newest document; the first has 0."""
        name = str(self.newest_document).rpartition("/")[2]
        return int(name.partition("-")[0])

    @property
    def current(self) -> Definition:
        """The current definition on the branch; that of a named one may have other columns."""
        if self.name is None:
            return self.definition
        read, location = metadata.reader(self.context), str(self.newest_document)
        newest = parse(location, read(location))
        found = evolved(self._first_document(), newest, self.definition, str(self.head.name))
        return found or self.definition

    def alter(self, definition: Definition) -> None:
        """Set another definition on the branch, by a document that follows the newest."""
        location = str(self.document)
        before = parse(location, metadata.reader(self.context)(location))
        at_ms = max(now_ms(), before.updated_ms)
        found = altered_document(
            before, self.location, self.head, definition, at_ms, settings=self.settings
        )
        self._write(found)
        self.definition, self._defined, self.document = definition, found, found.location

    def read(self, columns: Sequence[str] | None, where: Expression | None) -> pa.Table:
        """Return the current rows of the branch, by its own columns."""
        net = self.look()
        definition = net.definition or self.definition
        removed = {(f.added, f.ordinal) for f in net.removed}
        with self.context.database.read() as session:
            base = files.at(session, self.head.table_id, self.head.version)
            kept = [f for f in base if (f.added, f.ordinal) not in removed]
        new = [LoggedFile(f, self.head.version + 1, n) for n, f in enumerate(net.added)]
        return read_files(
            self.context.storage,
            self.head,
            definition,
            [*kept, *new],
            columns=columns,
            where=where,
        ).read_all()

    def new_rows(self, new: Sequence[DataFile]) -> NewRows:
        """Return the files as plain Parquet: Spark writes all columns, also those of partitions."""
        addresses = [exact(f"{self.root}/{f.path}") for f in new]
        # Files written before an alteration have other columns than later ones.
        by_id = None if self._defined is None else self.definition.schema
        return NewRows("parquet", addresses, by_id)

    def look(self) -> Net:
        """Return the net effect so far.

        Raise `UnsupportedFeature` if more than rows changed, and on a named branch columns.
        """
        read, location = metadata.reader(self.context), str(self.newest_document)
        return self._between(self._first_document(), parse(location, read(location)), read)

    def _between(self, first: Document, newest: Document, read: Callable[[str], bytes]) -> Net:
        """Return the net effect of the commits between two documents."""
        table, new = str(self.head.name), None
        if self.name is None:
            check_same(self._defined or first, newest, table)
        else:
            new = evolved(first, newest, self.definition, table)
        source = ManifestReader(read, self.root)
        before, after = (source.manifests(d.current) for d in (first, newest))
        added, gone = difference(source, newest, new or self.definition, before, after)
        if any(file.deletion_vector is not None for file in added):
            # Lakeward publishes data files only, so other engines would see the deleted rows again.
            what = f"Rows of table {table} were deleted by delete files."
            hint = "Set write.delete.mode, write.update.mode and write.merge.mode to copy-on-write."
            raise UnsupportedFeature(what, hint=hint, table=table)
        removed, changed = self._logged(gone), changes_rows(first, newest)
        net = Net(
            added=tuple(added),
            removed=tuple(removed),
            data_change=changed,
            looks=bool(removed) and changed,
            merged=merge_metrics(first, newest),
            definition=new,
        )
        if not self._has_own_ids:
            check_row_ids(first, newest, before.values(), net, table)
        return net

    def net(self, *, evolve: bool = False, differ: Differ | None = None) -> Net:  # noqa: ARG002
        """Return the net effect of the branch's commits, after syncing its files to disk."""
        net = self.look()
        self.context.storage.sync_files([f"{self.head.location}/{f.path}" for f in net.added])
        reach("branch.netted")
        return net

    def fill(self, change: Change, net: Net, operations: Sequence[Operation] = ()) -> None:
        """Add the branch's net effect to a change of its table."""
        if self.name is not None:
            operations = [Operation("PUBLISH BRANCH", {"branch": self.name})]
        elif [o.name for o in operations] == ["MERGE"]:
            operations = [replace(operations[0], metrics=_merged(net))]
        super().fill(change, net, operations)

    def origins(self, change: Change) -> Origins | None:
        """Return the origins of rows, found by the row ids of the table or of the branch."""
        first = self._first_document()
        if first.next_row_id is None:
            return None
        ids = ids_of(self.context.storage, replace(self.head, pointer=first.location))
        if not self._has_own_ids:
            return find_origins(self.context.storage, change, ids)
        location = str(self.newest_document)
        newest = parse(location, metadata.reader(self.context)(location))
        earlier = range(first.sequence_number + 1, newest.sequence_number)
        return find_origins(self.context.storage, change, ids, earlier)

    def _put(self, *, optional: bool = False) -> Document:
        """Write and return the first document; with `optional`, its columns accept nulls."""
        base = (
            self._new() if self.head.version < 0 else metadata.document_of(self.context, self.head)
        )
        document = first_document(base, self.location, optional=optional, settings=self.settings)
        self.context.storage.make_directory(f"{self._place}/{METADATA_DIRECTORY}")
        if self.name is None and document.next_row_id is None and is_tolerant(self.definition):
            document = self._numbered(document)
        self._write(document)
        reach("branch.opened")
        self._first, self.document = document, document.location
        return document

    def _numbered(self, document: Document) -> Document:
        """Return the document with row ids that only the branch has, to find the rows' origins."""
        known = metadata.manifests_of(self.context, document)
        found, data = numbered_document(document, self.location, known)
        if data is not None and found.current is not None:
            storage = self.context.storage
            storage.put(storage.path_of(found.current["manifest-list"]), data)
        self._has_own_ids = True
        return found

    def _write(self, document: Document) -> None:
        name = document.location.rpartition("/")[2]
        self.context.storage.put(f"{self._place}/{METADATA_DIRECTORY}/{name}", document.encode())

    def _new(self) -> Document:
        """Return the document of a table that the transaction creates."""
        return new_document(self.head, self.definition, self.root, at_ms=now_ms(), created_by={})

    def _first_document(self) -> Document:
        """Return the branch's first document, whose file name begins with `00000-`."""
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
    """Return the metrics of a merge if they agree with the row counts of files; else none."""
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
