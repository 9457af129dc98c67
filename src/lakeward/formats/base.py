"""The contract of a table format: everything that Delta and Iceberg do differently.

A format turns the log's neutral commits into published files and foreign files into neutral
commits. The log decides what is committed; a format never assigns a version. Code outside of
`formats` asks the registry for a table's format and calls these methods; it never compares format
names.
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
from lakeward.model.types import Field
from lakeward.storage.base import Storage

TakeOver: TypeAlias = Callable[[Head, Definition, ForeignActions], tuple[Head, Definition]]
"""Records one foreign commit after a locked head; returns the new head and definition."""


class Format(LightFormat, Protocol):
    """The methods of a table format. Those that take a session run inside its transaction.

    Methods with a body are for formats that have no guard, no checkpoints or no catalog.
    """

    policies: ClassVar[Mapping[str, str]]
    """The table property that stores each field of a policy, for fields that have one."""

    policies_of_others: ClassVar[tuple[str, ...]]
    """Fields of a policy that have no effect on tables of this format."""

    features: ClassVar[Mapping[str, tuple[str, str]]]
    """For each feature, the property and the value that enable it in a new table."""
    always_guarded: ClassVar[bool]
    """Whether every writer commits through the lake's store, so that no guard is needed."""
    begins_empty: ClassVar[bool]
    """Whether version 0 of a table must be without files."""
    has_catalog: ClassVar[bool]
    """Whether a catalog lists the tables, so that other engines find them by name."""
    columns_by_id: ClassVar[bool]
    """Whether files identify columns by field ids, and delete files list deleted rows."""
    metadata_directory: ClassVar[str]
    """The subdirectory of a table's directory that holds all published files."""
    has_checkpoints: ClassVar[bool] = False
    """Whether a version's state can be published as one file."""
    publishes_last: ClassVar[bool]
    """Whether a published commit tells readers that the whole transaction was ratified, so that
    the tables of this format are published after all others.
    """

    # Define and check

    def partition(self, schema: Schema, terms: Sequence[str], *, guard: bool) -> Partitioning:
        """Return a new table's partitioning; raise `InvalidInput` for invalid terms."""
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
        """Return a new table's definition, with everything that other engines require in it.

        Must raise `InvalidInput` or `UnsupportedFeature` for types and properties that the format
        does not have.
        """
        ...

    def guarded(self, definition: Definition, version: int, timestamp_ms: int) -> Definition:
        """Return the definition with the guard, which keeps other writers out from `version` on."""
        return definition

    def is_guarded(self, definition: Definition) -> bool:
        """Return whether a definition has the guard, which keeps out writers other than a lake."""
        return self.always_guarded

    def check_writable(self, definition: Definition, table: str) -> None:
        """Raise `UnsupportedFeature` if the embedded engine cannot write the table correctly."""
        ...

    def keeps(self, key: str) -> bool:
        """Return whether a table property is set by the format alone, never by users."""
        return False

    def alter(self, definition: Definition, change: Alteration) -> Definition:
        """Return the definition after a change, with everything that other engines require in it.

        Must raise `InvalidInput` or `UnsupportedFeature` for a change that the format does not
        support.
        """
        ...

    def fills_older_rows(self, field: Field) -> bool:
        """Return whether rows of files that lack a column have the column's default."""
        return False

    def clustered_by(self, session: Session, head: Head, definition: Definition) -> list[str]:
        """Return the names of the columns by which other engines cluster a table."""
        return []

    def misfit(self, old: Definition, new: Definition, *, looked: bool = False) -> Misfit | None:
        """Return why files written under `old` are not valid under `new`; None if they are.

        `looked` says that the rows were checked and satisfy what `new` requires.
        """
        return next(misfits(old, new, looked=looked), None)

    def restored(self, current: Definition, wanted: Definition) -> Definition:
        """Return the definition of a table that is restored to the older definition `wanted`.

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
        """Return whether data files identify columns by field ids instead of names."""
        return self.columns_by_id

    def stored(self, definition: Definition) -> Definition:
        """Return the physical definition: with the names and ids that columns have in files."""
        return definition

    def in_files(
        self, definition: Definition, columns: Sequence[str], where: Expression | None
    ) -> tuple[Definition, Sequence[str], Expression | None]:
        """Return the arguments with columns renamed to their names in files."""
        return definition, columns, where

    def has_change_feed(self, definition: Definition) -> bool:
        """Return whether commits must publish the rows that they change."""
        return False

    def row_ids(self, storage: Storage, head: Head, definition: Definition) -> RowIds | None:
        """Return the columns that store the ids of rewritten rows; None if rows have no ids.

        The embedded engine must keep the ids of rows that it rewrites.
        """
        return None

    def gives_first_ids(self, before: Definition, after: Definition) -> bool:
        """Return whether a change of definition assigns ids to all existing rows."""
        return False

    def identity_marks(self, session: Session, head: Head) -> dict[int, int]:
        """Return the high watermarks of identity columns in the newest version, by column id."""
        return {}

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

        Readers must see nothing of the commit before that transaction commits. Files that remain if
        it does not must have the id of the transaction in their names; add them to
        `metadata_files`. Returns the commit with facts that only the files have, such as the new
        pointer.
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

        Called inside the database transaction that records the tags. Add files that are garbage if
        that transaction does not commit to `metadata_files`. Must raise `AlreadyExists` if other
        engines use the name of a tag, unless `replace_known` is set. Formats without tags publish
        nothing.
        """
        return head

    def put_commit(self, context: LakeContext, member: Ratified) -> bool:
        """Publish a commit of an open table, if no other writer has published its version.

        Called inside the ratifying transaction. Returns False if another writer published the
        version. Before returning True, make the file and its name durable.
        """
        message = f"every {self.name} table is guarded"
        raise AssertionError(message)

    def publish(
        self, context: LakeContext, member: Ratified, background: BackgroundWorker | None
    ) -> None:
        """Publish a commit just ratified, and before it all earlier versions not yet published.

        The bytes must depend on the log alone, so that anybody can publish again. `background` does
        work that the commit does not wait for. Raises `ForeignCommit` if the file of the version
        was written by another writer.
        """
        ...

    def publish_owed(self, context: LakeContext, head: Head) -> int:
        """Publish all versions whose files may be missing; return how many were checked."""
        ...

    def publish_again(self, context: LakeContext, head: Head, versions: Iterable[int]) -> None:
        """Publish versions whose files were lost or damaged."""
        ...

    def checkpoint_if_due(
        self, context: LakeContext, member: Ratified, background: BackgroundWorker | None
    ) -> bool:
        """Write a checkpoint if the table's policy asks for one; return whether one was due."""
        return False

    def checkpoint(
        self, context: LakeContext, head: Head, version: int, definition: Definition
    ) -> None:
        """Write a checkpoint of a version, if the format has them and can write it completely."""
        return

    def last_checkpoint(self, context: LakeContext, head: Head) -> int | None:
        """Return the version of the newest checkpoint that readers find; None if there is none."""
        return None

    def published(self, head: Head) -> int:
        """Return a version up to which all versions are known to be published."""
        return head.version

    def first_missing(self, context: LakeContext, head: Head) -> int | None:
        """Return the first version whose published files are missing; None if there is none."""
        return None

    def unknown_commit(self, context: LakeContext, session: Session, head: Head) -> str | None:
        """Return a published file whose version is newer than the log's newest; None if none is.

        This happens if a store was restored from a backup that is older than the warehouse.
        """
        return None

    def taken_over(self, context: LakeContext, head: Head) -> str | None:
        """Return a published file that only others can have written since a drop, or None."""
        return None

    def foreign_refs(self, context: LakeContext, session: Session, head: Head) -> dict[str, int]:
        """Return the tags and branches that other engines made, with their snapshot ids."""
        return {}

    def files_of_refs(
        self, context: LakeContext, head: Head, refs: Mapping[str, int]
    ) -> Iterator[str]:
        """Yield the files that the snapshots of other engines' refs need.

        Paths are full addresses, or relative to the table as in the log.
        """
        return iter(())

    def old_metadata(
        self, context: LakeContext, session: Session, head: Head, before_ms: int
    ) -> tuple[list[str], int]:
        """Return metadata files, relative to the table's directory, that are no longer needed.

        Other engines need not be able to read versions before `before_ms`. Also returns the version
        before which all published commits are among the files, or 0.
        """
        return [], 0

    # Foreign commits

    def has_moved(self, context: LakeContext, session: Session, head: Head) -> bool:
        """Return whether another writer has committed after the newest version in the log."""
        return self.may_have_moved(session, head)

    def finds_own(self, context: LakeContext, session: Session, head: Head) -> bool:
        """Return whether the published commit after a head is the lake's own.

        That is so if the file was published and a crash undid the database transaction.
        """
        ...

    def take_over(
        self, context: LakeContext, session: Session, head: Head, record: TakeOver
    ) -> Head:
        """Record every foreign commit after a locked head, in order; return the newest head.

        If the table refuses foreign commits, only commits of the lake itself are recorded.
        Afterwards no other writer may publish a version until the session ends, unless the table is
        open.
        """
        ...

    def refused(self, head: Head) -> ForeignCommit:
        """Return the error for a foreign commit to a table that refuses them."""
        ...

    def vector_files(self, vector: Any) -> list[str]:
        """Return the paths of the files that hold a deletion vector, as the log stores paths."""
        ...

    def vector_id(self, vector: Any) -> str | None:
        """Return the identifier by which commits refer to a deletion vector."""
        ...

    def anchors(self, context: LakeContext, head: Head) -> Iterator[tuple[int, str]]:
        """Yield the audit-trail anchors in the published files, each after its version."""
        ...

    # Adopt, clone, leave

    def occupies(self, storage: Storage, location: str) -> str | None:
        """Return a description of the format's table in a directory, for errors; None if none."""
        ...

    def names_table(self, path: str) -> bool:
        """Return whether a path is that of a table's metadata file instead of its directory."""
        return False

    def find(self, context: LakeContext, location: str, *, expected: bool) -> str | None:
        """Return the `source` of a directory's table for `read_table`; None if there is no table.

        With `expected` a missing table is an error, raised here or in `read_table`.
        """
        ...

    def find_in_catalog(
        self, context: LakeContext, name: TableName, catalog: Mapping[str, str] | None, known: str
    ) -> str:
        """Return the source of a table that a catalog lists as `known`.

        `catalog` None means the lake's own catalog.
        """
        message = f"{self.name} tables have no catalog"
        raise AssertionError(message)

    def read_table(
        self, context: LakeContext, name: TableName, source: str, *, take_over: bool
    ) -> Adoption:
        """Read an existing table completely, without changing anything.

        Must raise `AlreadyExists` if a lake manages the table, unless `take_over` is set, and
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
        """Remove a dropped or renamed table from the catalog, unless another has its name there."""
        return

    def enter(self, context: LakeContext, session: Session, head: Head) -> None:
        """Add a table to the catalog by its name, after `undrop` or a renaming."""
        return
