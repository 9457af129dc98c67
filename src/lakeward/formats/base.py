"""The contract of a table format: everything that Delta and Iceberg do differently.

A format turns the log's neutral commits into published files and foreign files into neutral
commits. The log decides what is committed; a format never gives out a version. Code outside of
`formats` asks the registry for a table's format and calls these methods; it never compares names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeAlias

from lakeward.context import LakeContext
from lakeward.errors import ForeignCommit
from lakeward.formats.adoption import Adoption
from lakeward.formats.background import BackgroundWorker
from lakeward.formats.light import LightFormat
from lakeward.formats.partitioning import Partitioning
from lakeward.formats.ratified import Ratified as Ratified
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.evolution.fit import Misfit, misfits
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.history import ForeignActions
from lakeward.model.names import TableName
from lakeward.model.row_ids import RowIds
from lakeward.model.schema import Schema
from lakeward.storage.base import Storage

TakeOver: TypeAlias = Callable[[Head, Definition, ForeignActions], tuple[Head, Definition]]
"""Records one foreign commit behind a locked head; returns the head and definition after it."""


class Format(LightFormat, Protocol):
    """What a table format implements. Methods that take a session run inside its transaction.

    Methods with a body are for formats that have no guard, no checkpoints or no catalog.
    """

    policies: ClassVar[Mapping[str, str]]
    """The table property behind each field of a policy that the format has one for."""

    policies_of_others: ClassVar[tuple[str, ...]]
    """Fields of a policy that mean nothing for tables of this format."""

    features: ClassVar[Mapping[str, tuple[str, str]]]
    """The property and its value that give each feature to a new table."""
    always_guarded: ClassVar[bool]
    """Whether every writer commits through the lake's own store, so that no guard is needed."""
    begins_empty: ClassVar[bool]
    """Whether version 0 cannot hold files."""
    has_catalog: ClassVar[bool]
    """Whether its tables are found in a catalog, and so by other engines under their names."""
    columns_by_id: ClassVar[bool]
    """Whether columns are found in files by field ids, and delete files name deleted rows."""
    metadata_directory: ClassVar[str]
    """The directory below a table's own in which everything is published."""
    has_checkpoints: ClassVar[bool] = False
    """Whether a version's state can be published as one file."""
    publishes_last: ClassVar[bool]
    """Whether its publication shows readers that the whole transaction was ratified, so that it
    must come after the other tables'."""

    # Define and check

    def partition(self, schema: Schema, terms: Sequence[str], *, guard: bool) -> Partitioning:
        """Return how a new table is partitioned; raise `InvalidInput` for terms that cannot be."""
        ...

    def define(
        self,
        parts: Partitioning,
        properties: Mapping[str, str],
        constraints: Mapping[str, str],
        comment: str | None,
        *,
        guard: bool,
    ) -> Definition:
        """Return a new table's definition, with all that other engines must find in it.

        Must raise `InvalidInput` or `UnsupportedFeature` for a type or a property that the format
        does not have, or that is another format's.
        """
        ...

    def guarded(self, definition: Definition, version: int, timestamp_ms: int) -> Definition:
        """Return a definition that keeps other writers out from a version on."""
        return definition

    def is_guarded(self, definition: Definition) -> bool:
        """Return whether a definition keeps writers out that do not go through a lake."""
        return self.always_guarded

    def check_writable(self, definition: Definition, table: str) -> None:
        """Raise `UnsupportedFeature` if the embedded engine cannot write the table correctly."""
        ...

    def keeps(self, key: str) -> bool:
        """Return whether the format sets a table property itself."""
        return False

    def alter(self, definition: Definition, change: Alteration) -> Definition:
        """Return the definition after a change, with all that other engines must find in it.

        Must raise `InvalidInput` or `UnsupportedFeature` for what the format does not have.
        """
        ...

    def clustered_by(self, session: Session, head: Head, definition: Definition) -> list[str]:
        """Return the names of the columns by which other engines cluster a table."""
        return []

    def misfit(self, old: Definition, new: Definition, *, looked: bool = False) -> Misfit | None:
        """Return why files written under `old` are not right under `new`; None if they are.

        With `looked` their rows were found to have what `new` requires.
        """
        return next(misfits(old, new, looked=looked), None)

    def restored(self, current: Definition, wanted: Definition) -> Definition:
        """Return the definition of a table that is restored to an older one.

        It has the columns, partitioning, properties and constraints of `wanted`; ids and the
        protocol, which only grow, are those of `current`.
        """
        return replace(
            wanted,
            schema=Schema(wanted.schema.fields, max(wanted.schema.last_id, current.schema.last_id)),
            protocol=current.protocol,
            created_ms=current.created_ms,
        )

    # Read

    def finds_by_id(self, definition: Definition) -> bool:
        """Return whether columns are found in data files by field ids, and not by names."""
        return self.columns_by_id

    def stored(self, definition: Definition) -> Definition:
        """Return the physical definition: with the names and ids that columns have in files."""
        return definition

    def in_files(
        self, definition: Definition, columns: Sequence[str], where: Expression | None
    ) -> tuple[Definition, Sequence[str], Expression | None]:
        """Return definition, columns and condition with the names that columns have in files."""
        return definition, columns, where

    def has_change_feed(self, definition: Definition) -> bool:
        """Return whether commits must publish the rows that they change."""
        return False

    def row_ids(self, storage: Storage, head: Head, definition: Definition) -> RowIds | None:
        """Return where files store the ids of moved rows; None if rows have no ids.

        The embedded engine must keep the ids of rows that it rewrites.
        """
        return None

    def gives_first_ids(self, before: Definition, after: Definition) -> bool:
        """Return whether a change of definition gives ids to all existing rows."""
        return False

    # Commit and publish

    def numbered(self, session: Session, member: Ratified) -> Ratified:
        """Return a commit with the numbers that depend on earlier commits, such as row ids.

        Called inside the ratifying transaction, before the commit's files are written.
        """
        return member

    def write_commit(
        self, context: LakeContext, session: Session, member: Ratified, metadata_files: list[str]
    ) -> Ratified:
        """Write a commit's files inside the ratifying transaction, before the commit is inserted.

        Readers must see nothing of it before that transaction commits, and if it does not, only
        files may be left that name their transaction; those go into `metadata_files`. The result
        has what only the files know, such as the new pointer.
        """
        ...

    def publish_tags(
        self,
        context: LakeContext,
        session: Session,
        head: Head,
        tags: Mapping[str, int | None],
        metadata_files: list[str],
        *,
        replace_known: bool,
    ) -> Head:
        """Publish tags for versions, while the head is locked; None removes a tag.

        Called inside the database transaction that records the tags. Files that are garbage if it
        does not commit go into `metadata_files`. Must raise `AlreadyExists` if other engines use a
        name, unless it may be replaced. Formats without tags publish nothing.
        """
        return head

    def put_commit(self, context: LakeContext, member: Ratified) -> bool:
        """Publish a commit of a table that others write, if its version is still free.

        Called inside the ratifying transaction. Returns False if another writer took the version.
        When it returns True the file's name must be safe from a power cut.
        """
        message = f"every {self.name} table is guarded"
        raise AssertionError(message)

    def publish(
        self, context: LakeContext, member: Ratified, background: BackgroundWorker | None
    ) -> None:
        """Publish a commit just ratified, and before it whatever earlier versions still miss.

        Bytes must depend on the log alone, so that anybody can publish again. `background` does
        work that the commit does not wait for. Raises `ForeignCommit` if another writer's file has
        the name.
        """
        ...

    def publish_owed(self, context: LakeContext, head: Head) -> int:
        """Publish all versions that may be missing; return how many were looked at."""
        ...

    def publish_again(self, context: LakeContext, head: Head, versions: Iterable[int]) -> None:
        """Publish versions whose files were lost or damaged."""
        ...

    def checkpoint_if_due(
        self, context: LakeContext, member: Ratified, background: BackgroundWorker | None
    ) -> bool:
        """Write a checkpoint if the table's policy asks for one at this version."""
        return False

    def checkpoint(
        self, context: LakeContext, head: Head, version: int, definition: Definition
    ) -> None:
        """Write a checkpoint of a version, if the format has any and can write it completely."""
        return

    def published(self, head: Head) -> int:
        """Return a version up to which all versions are known to be published."""
        return head.version

    def first_missing(self, context: LakeContext, head: Head) -> int | None:
        """Return the first version whose published files are missing; None if there is none."""
        return None

    def unknown_commit(self, context: LakeContext, session: Session, head: Head) -> str | None:
        """Return a published file of a later version that the log does not have.

        This happens if a store was restored from a backup that is older than the warehouse.
        """
        return None

    def foreign_refs(self, context: LakeContext, session: Session, head: Head) -> dict[str, int]:
        """Return the tags and branches that other engines made, with the snapshots they name."""
        return {}

    def files_of_refs(
        self, context: LakeContext, head: Head, refs: Mapping[str, int]
    ) -> Iterator[str]:
        """Return the files that snapshots of other engines' refs need, in full or as in the log."""
        return iter(())

    def old_metadata(
        self, context: LakeContext, session: Session, head: Head, before_ms: int
    ) -> tuple[list[str], int]:
        """Return metadata files, below the table's directory, that nobody needs any more.

        Other engines need not be able to read versions before `before_ms`. Also returns the version
        before which published commits are among the files, or 0.
        """
        return [], 0

    # Foreign commits

    def has_moved(self, context: LakeContext, session: Session, head: Head) -> bool:
        """Return whether another writer's commit follows the newest one that the log has."""
        return self.may_have_moved(session, head)

    def finds_own(self, context: LakeContext, session: Session, head: Head) -> bool:
        """Return whether the commit that follows a head is the lake's own.

        Its file was published, and a crash undid its database transaction.
        """
        ...

    def take_over(
        self, context: LakeContext, session: Session, head: Head, record: TakeOver
    ) -> Head:
        """Record every foreign commit after a locked head, in order; return the newest head.

        If the table refuses foreign commits, only the lake's own are recorded. Afterwards the
        published version must not move until the session ends, unless the table is open.
        """
        ...

    def refused(self, head: Head) -> ForeignCommit:
        """Return the error for a foreign commit to a table that refuses them."""
        ...

    def vector_files(self, vector: Any) -> list[str]:
        """Return the paths of the files that hold a deletion vector, as the log stores paths."""
        ...

    def vector_id(self, vector: Any) -> str | None:
        """Return the identity of a deletion vector, by which commits refer to it."""
        ...

    def anchors(self, context: LakeContext, head: Head) -> Iterator[tuple[int, str]]:
        """Return the audit-trail anchors in the published files, with their versions."""
        ...

    # Adopt, clone, leave

    def occupies(self, storage: Storage, location: str) -> str | None:
        """Return what shows that a table of the format lies in a directory; None if none does."""
        ...

    def names_table(self, path: str) -> bool:
        """Return whether a path names a table's file instead of its directory."""
        return False

    def find(self, context: LakeContext, location: str, *, expected: bool) -> str | None:
        """Return the source from which `read_table` reads a directory's table, None if none is.

        With `expected` a missing table is an error, at the latest in `read_table`.
        """
        ...

    def find_in_catalog(
        self, context: LakeContext, name: TableName, catalog: Mapping[str, str] | None, known: str
    ) -> str:
        """Return the source of a table that a catalog has as `known`; None for the lake's own."""
        message = f"{self.name} tables have no catalog"
        raise AssertionError(message)

    def read_table(
        self, context: LakeContext, name: TableName, source: str, *, take_over: bool
    ) -> Adoption:
        """Read an existing table whole, without changing anything.

        Must raise `AlreadyExists` if a lake keeps the table, unless `take_over` is set, and
        `CorruptTable` or `UnsupportedFeature` rather than lose a row or a version.
        """
        ...

    def clone(
        self,
        context: LakeContext,
        source: Head,
        version: int,
        definition: Definition,
        files: Sequence[LoggedFile],
    ) -> tuple[Definition, list[DataFile]]:
        """Return the definition of a new table that uses a version's files, and those files."""
        ...

    def leave(self, context: LakeContext, session: Session, head: Head) -> None:
        """Take a dropped table out of the catalog, unless another table has its name there."""
        return

    def enter(self, context: LakeContext, session: Session, head: Head) -> None:
        """Enter a dropped table into the catalog again when `undrop` brings it back."""
        return
