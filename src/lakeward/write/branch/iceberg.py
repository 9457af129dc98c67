"""A branch of an Iceberg table: a metadata document that begins with the current snapshot.

The document sends all data and metadata that is written into the branch's directory. The table's
own metadata and pointer do not change. Engines open a named branch by a catalog `branch_<name>` in
the same database as the lake's catalog, and move the pointer there; the document of a transaction's
branch is kept by whoever runs the statements. Files are rewritten rather than marked as deleted,
because a branch's net effect is files added and files removed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson
import pyarrow as pa

from lakeward.errors import CorruptTable, UnsupportedFeature
from lakeward.formats.iceberg import metadata
from lakeward.formats.iceberg.definition import FORMAT_VERSION, new_document
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
from lakeward.write.branch.base import Branch, Differ
from lakeward.write.plan.change import Change, Operation

_WRITABLE: Final = 2
_SETTINGS: Final = {
    "write.delete.mode": "copy-on-write",
    "write.update.mode": "copy-on-write",
    "write.merge.mode": "copy-on-write",
    # What the table has stays in the manifests it is in, so that only new ones need reading.
    "commit.manifest-merge.enabled": "false",
    "write.wap.enabled": "false",
    "write.metadata.delete-after-commit.enabled": "false",
}
_UNCHANGED: Final = ("schemas", "current-schema-id", "partition-specs", "default-spec-id")
"""The parts of a document that may not change on a branch."""


@dataclass
class IcebergBranch(Branch):
    """A working copy of one version of one Iceberg table; it always has the base's files."""

    _first: Document | None = field(default=None, init=False)

    @classmethod
    def check(cls, definition: Definition, table: str) -> None:
        """Raise UnsupportedFeature for a version of the format that the lake cannot commit."""
        version = definition.protocol[FORMAT_VERSION]
        if version != _WRITABLE:
            what = f"Table {table} has Iceberg's format version {version}."
            hint = "Transactions write version 2; write this one through Spark's catalog lakeward."
            raise UnsupportedFeature(what, hint=hint, table=table)

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
        """Finish a named branch whose maker did not, if the table has not changed since."""
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

    def new_rows(self, new: Sequence[DataFile]) -> tuple[str, list[str]]:
        """The files themselves: Spark writes every column into them, partition columns too."""
        return "parquet", [f"{self.root}/{f.path}" for f in new]

    def look(self) -> Net:
        """The net effect of the branch's commits so far.

        Raises:
            UnsupportedFeature: The branch changed the table's columns or partitioning.
        """
        read, location = metadata.reader(self.context), str(self.newest_document)
        first, newest = self._first_document(), parse(location, read(location))
        self._check_same(first, newest)
        source = ManifestReader(read, self.root)
        before, after = (source.manifests(d.current) for d in (first, newest))
        added, gone = difference(source, newest, self.definition, before, after)
        removed, changed = self._logged(gone), _changes_rows(first, newest)
        return Net(
            added=tuple(added),
            removed=tuple(removed),
            data_change=changed,
            looks=bool(removed) and changed,
        )

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
        super().fill(change, net, operations)

    def _put(self, *, optional: bool = False) -> Document:
        """Write the branch's first document.

        Args:
            optional: Whether columns that require a value accept nulls on the branch.
        """
        base = (
            self._new() if self.head.version < 0 else metadata.document_of(self.context, self.head)
        )
        document = _first(base, self.location)
        if optional:
            document = replace(document, body=_optional(document.body))
        storage, directory = self.context.storage, f"{self._place}/{METADATA_DIRECTORY}"
        storage.make_directory(directory)
        storage.put(f"{directory}/{document.location.rpartition('/')[2]}", document.encode())
        reach("branch.opened")
        self._first, self.document = document, document.location
        return document

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

    def _check_same(self, first: Document, newest: Document) -> None:
        before, after = first.body, newest.body
        changed = [k for k in _UNCHANGED if _nonempty(after.get(k)) != _nonempty(before.get(k))]
        if changed or newest.properties != first.properties:
            name = str(self.head.name)
            what = f"A statement changed the columns, partitioning or properties of table {name}."
            raise UnsupportedFeature(
                what, hint="Only rows may change here; replace rows, not the table.", table=name
            )

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


def _changes_rows(first: Document, newest: Document) -> bool:
    """Whether any commit of the branch did more than move rows into other files."""
    start, number = (_number(d.current) for d in (first, newest))
    if number == start:
        return True
    known = newest.all_snapshots()
    while number != start and number in known:
        if (known[number].get("summary") or {}).get("operation") != "replace":
            return True
        number = _number(known[number], "parent-snapshot-id")
    # If snapshots are missing before the first commit, assume that rows changed.
    return number != start


def _number(snapshot: Mapping[str, Any] | None, key: str = "snapshot-id") -> int:
    found = (snapshot or {}).get(key)
    return 0 if found is None else int(found)


def _nonempty(value: Any) -> Any:
    """A part of a document without empty lists and nulls, which some engines leave out."""
    if isinstance(value, dict):
        return {k: _nonempty(v) for k, v in value.items() if v not in ([], None)}
    return [_nonempty(v) for v in value] if isinstance(value, list) else value


def _optional(body: Mapping[str, Any]) -> dict[str, Any]:
    """A document's body with a schema whose columns, but for parts of them, require no value."""
    number = body["current-schema-id"]
    schemas = [_relaxed(s) if s["schema-id"] == number else s for s in body["schemas"]]
    return {**body, "schemas": schemas}


def _relaxed(schema: Mapping[str, Any]) -> dict[str, Any]:
    # Fields that identify a row must require values, so there are none.
    kept = {k: v for k, v in schema.items() if k != "identifier-field-ids"}
    return {**kept, "fields": [{**f, "required": False} for f in schema["fields"]]}


def _first(base: Document, place: str) -> Document:
    """A branch's first document: the table's newest snapshot alone."""
    current = base.current
    number = None if current is None else current["snapshot-id"]
    metadata = f"{place}/{METADATA_DIRECTORY}"
    own = {"write.data.path": f"{place}/data", "write.metadata.path": metadata}
    refs: dict[str, Any] = {}
    if number is not None:
        refs["main"] = {"type": "branch", "snapshot-id": number}
    body = {
        **base.body,
        "properties": {**base.properties, **_SETTINGS, **own},
        "refs": refs,
        "statistics": [],
        "partition-statistics": [],
    }
    location = f"{metadata}/00000-{uuid.uuid4()}.metadata.json"
    if current is None:
        return replace(base, location=location, body=body, snapshots=b"", snapshot_log=b"")
    entry = {"timestamp-ms": current["timestamp-ms"], "snapshot-id": number}
    return Document(location, body, orjson.dumps(current), orjson.dumps(entry), (), current)
