"""Finds the versions and files of tables whose rows a key check compares."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lakeward.context import LakeContext
from lakeward.engines.arrow.key_hash import Hashes
from lakeward.errors import InvalidInput
from lakeward.log import files, heads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.constraints import ForeignKey, declared
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile
from lakeward.model.names import TableName
from lakeward.write.keys.changes import adds_rows, marked_files, new_files
from lakeward.write.keys.index import KeyIndex
from lakeward.write.keys.reading import KeyReader
from lakeward.write.plan.change import Change


@dataclass
class KeyLookup:
    """Finds versions and files in one read session, for the changes of one transaction.

    Attributes:
        changes: The changes of the transaction, by table id.
        dropped: The ids of tables that the transaction drops.
        is_pinned: Whether the tables are compared at the versions of the changes' heads, instead of
            their newest versions.
    """

    context: LakeContext
    session: Session
    changes: Mapping[int, Change]
    dropped: Collection[int] = ()
    is_pinned: bool = field(default=False, kw_only=True)

    def is_new(self, change: Change, name: str) -> bool:
        """Return whether a change adds or alters a constraint, so that all rows must be checked."""
        if change.new_definition is None or change.is_new:
            return False
        _, before = self.newest(change)
        return declared(before).get(name) != declared(change.new_definition).get(name)

    def to_look_at(self, change: Change, name: str) -> list[LoggedFile]:
        """Return the files whose rows must be checked: new files, or all for a new constraint."""
        new = new_files(change) if adds_rows(change) else []
        if not self.is_new(change, name):
            return new
        head, _ = self.newest(change)
        known = {f.path for f in new}
        marked = marked_files(change)
        there = [
            marked.get(f.path, f)
            for f in files.at(self.session, head.table_id, head.version)
            if (f.added, f.ordinal) not in change.removed or f.path in marked
        ]
        return [*(f for f in there if f.path not in known), *new]

    def find(
        self,
        index: KeyIndex,
        head: Head,
        wanted: Hashes,
        where: Expression | None,
        reader: KeyReader,
    ) -> dict[str, Hashes]:
        """Return the hashes of `wanted` that each file of a version has, by path."""
        with index.lock:
            index.know(self.session, head, where, reader.all_hashes)
            return index.find(wanted)

    def staying(
        self, head: Head, hits: Mapping[str, Hashes], change: Change | None
    ) -> dict[str, LoggedFile]:
        """Return the files with hits that the table still has after the change, by path."""
        out: dict[str, LoggedFile] = {}
        marked = {} if change is None else marked_files(change)
        for path in hits:
            if path in marked:
                out[path] = marked[path]
                continue
            for file in files.at_path(self.session, head.table_id, head.version, path):
                if change is None or (file.added, file.ordinal) not in change.removed:
                    out[path] = file
        return out

    def newest(self, change: Change) -> tuple[Head, Definition]:
        """Return the version of the changed table with which the change is compared."""
        if change.is_new or self.is_pinned:
            return change.head, change.definition
        head = heads.by_id(self.session, change.head.table_id)
        if head is None:
            raise heads.missing(self.session, change.head.name)
        return head, self.context.definition(self.session, head)

    def table(self, key: ForeignKey, name: str) -> tuple[Head, Definition]:
        """Return the newest version of the table that the foreign key `name` refers to."""
        head = heads.find(self.session, TableName.parse(key.references))
        if head is None or head.table_id in self.dropped:
            what = f"Foreign key {name} refers to table {key.references}, which is not there."
            hint = "Make the table, or drop the constraint."
            raise InvalidInput(what, hint=hint, constraint=name, table=key.references)
        return head, self.context.definition(self.session, head)
