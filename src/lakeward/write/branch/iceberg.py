"""A branch of an Iceberg table: any engine works on it, and one commit takes what it did.

The branch is a metadata document of its own, which begins with the table's current snapshot and
sends all that is written, data and metadata, into one directory below the table. No catalog of the
lake names it, and the table's own metadata and pointer know nothing of it: whoever works on the
branch keeps its newest document. Files are rewritten rather than marked as deleted there, because
what a branch comes to is told in files added and files removed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from lakeward.context import LakeContext
from lakeward.errors import UnsupportedFeature
from lakeward.formats.delta.net import Net
from lakeward.formats.iceberg.definition import FORMAT_VERSION, new_document
from lakeward.formats.iceberg.document import Document, parse
from lakeward.formats.iceberg.listing import Source, difference, vector_id
from lakeward.log import files
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.steps import reach
from lakeward.write.branch.directory import clear, needed, note
from lakeward.write.commit import iceberg
from lakeward.write.plan.change import Change

_DATA: Final = "data"
_METADATA: Final = "metadata"
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
_KEPT: Final = ("schemas", "current-schema-id", "partition-specs", "default-spec-id")
"""What of a document may not change on a branch."""


@dataclass
class IcebergBranch:
    """A zero-copy working copy of one version of one Iceberg table.

    Attributes:
        context: The lake's.
        head: The table at the version that the branch was made from.
        definition: Of the table at that version.
        directory: Of the branch, below the table's location.
        document: The branch's first.
    """

    context: LakeContext
    head: Head
    definition: Definition
    directory: str
    document: Document

    @classmethod
    def open(
        cls, context: LakeContext, owner: str, head: Head, definition: Definition
    ) -> IcebergBranch:
        """Make a branch of a table, on which no column requires a value.

        The transaction that it is for must be registered before: from here on there are files of
        it. It checks what columns require when it commits.

        Raises:
            UnsupportedFeature: The table has a version of the format that the lake cannot commit.
        """
        check_branchable(definition, str(head.name))
        return cls.make(context, head, definition, note(context, owner, head), optional=True)

    @classmethod
    def make(
        cls,
        context: LakeContext,
        head: Head,
        definition: Definition,
        directory: str,
        *,
        optional: bool = False,
    ) -> IcebergBranch:
        """Write a branch's first document into its directory, which is noted.

        Args:
            context: The lake's.
            head: The table at the version to branch from.
            definition: At that version.
            directory: Of the branch, below the table's location.
            optional: Whether columns that require a value take none on the branch.
        """
        is_new = head.version < 0
        base = _new(context, head, definition) if is_new else iceberg.document_of(context, head)
        place = f"{head.location}/{directory}"
        document = _first(base, context.storage.uri(place))
        if optional:
            document = replace(document, body=_optional(document.body))
        name = document.location.rpartition("/")[2]
        context.storage.make_directory(f"{place}/{_METADATA}")
        context.storage.put(f"{place}/{_METADATA}/{name}", document.encode())
        reach("branch.opened")
        return cls(context, head, definition, directory, document)

    def net(self, pointer: str) -> Net:
        """What the branch's commits come to, as one commit on the table.

        The files that it adds are safe on disk when this returns.

        Args:
            pointer: The branch's newest document.

        Raises:
            UnsupportedFeature: The branch changed the table's columns or partitioning.
            CorruptTable: Its metadata cannot be understood.
        """
        read = iceberg.reader(self.context)
        newest = parse(pointer, read(pointer))
        self._check_same(newest)
        source = Source(read, self.context.storage.uri(self.head.location))
        before, after = (source.manifests(d.current) for d in (self.document, newest))
        added, gone = difference(source, newest, self.definition, before, after)
        removed = self._logged(gone)
        self.context.storage.harden([f"{self.head.location}/{f.path}" for f in added])
        reach("branch.netted")
        changed = self._changes_rows(newest)
        return Net(added=tuple(added), removed=tuple(removed), data_change=changed)

    def fill(self, change: Change, found: Net) -> None:
        """Make the branch's net effect part of a change of its table.

        Scopes that the change has already are taken for all that the branch's statements looked at;
        where it has none and rows went, that is the whole table. The change is fixed to its base
        version: nothing here can run the branch's statements again.
        """
        change.added.extend(found.added)
        for file in found.removed:
            change.remove(file)
        change.data_change = found.data_change
        change.fixed = True
        if found.removed and found.data_change and not change.scopes:
            change.scopes.append(None)

    def tidy(self, found: Net) -> None:
        """Delete what the commit does not need: the branch's metadata, and files that went."""
        kept = needed(self.head, self.directory, found.added, ())
        clear(self.context, self.head, self.directory, kept)

    def discard(self) -> None:
        """Delete the branch with all that was written on it."""
        clear(self.context, self.head, self.directory)

    def _changes_rows(self, newest: Document) -> bool:
        """Whether any commit of the branch did more than move rows into other files."""
        first, last = (_number(d.current) for d in (self.document, newest))
        known, number = newest.all_snapshots(), last
        while number != first and number in known:
            if (known[number].get("summary") or {}).get("operation") != "replace":
                return True
            number = _number(known[number], "parent-snapshot-id")
        # Where the trail ends before the first commit, nobody knows what that was.
        return number != first or first == last

    def _check_same(self, newest: Document) -> None:
        before = self.document.body
        changed = [k for k in _KEPT if _told(newest.body.get(k)) != _told(before.get(k))]
        if changed or newest.properties != self.document.properties:
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


def check_branchable(definition: Definition, table: str) -> None:
    """Refuse a table that the lake cannot commit.

    Raises:
        UnsupportedFeature: It has another version of the format.
    """
    version = definition.protocol[FORMAT_VERSION]
    if version != _WRITABLE:
        what = f"Table {table} has Iceberg's format version {version}."
        hint = "Transactions write version 2; write this one through Spark's catalog lakeward."
        raise UnsupportedFeature(what, hint=hint, table=table)


def _number(snapshot: Mapping[str, Any] | None, key: str = "snapshot-id") -> int:
    found = (snapshot or {}).get(key)
    return 0 if found is None else int(found)


def _told(value: Any) -> Any:
    """What a part of a document says; some engines spell out what is empty, others leave it out."""
    if isinstance(value, dict):
        return {k: _told(v) for k, v in value.items() if v not in ([], None)}
    return [_told(v) for v in value] if isinstance(value, list) else value


def _new(context: LakeContext, head: Head, definition: Definition) -> Document:
    """The document that a table which is not there yet would have."""
    place = context.storage.uri(head.location)
    return new_document(head, definition, place, at_ms=now_ms(), told={})


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
    own = {"write.data.path": f"{place}/{_DATA}", "write.metadata.path": f"{place}/{_METADATA}"}
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
    location = f"{place}/{_METADATA}/00000-{uuid.uuid4()}.metadata.json"
    if current is None:
        return replace(base, location=location, body=body, snapshots=b"", snapshot_log=b"")
    entry = {"timestamp-ms": current["timestamp-ms"], "snapshot-id": number}
    return Document(location, body, orjson.dumps(current), orjson.dumps(entry), (), current)
