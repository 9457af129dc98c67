"""Adapters for the table formats in Spark: names, pinned versions, branches, statements.

There is one adapter per format, chosen by the format's name; no other code of this package depends
on the format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from lakeward.context import LakeContext
from lakeward.engines.spark.databases import NAMESPACE
from lakeward.engines.spark.rows import no_rows, write_difference
from lakeward.engines.spark.statement import Statement
from lakeward.engines.spark.workspace import Workspace
from lakeward.formats.delta.changes import Difference
from lakeward.formats.delta.publication import commit_path
from lakeward.formats.net import Net
from lakeward.formats.registry import format_of
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.names import TableName
from lakeward.model.policy.policy import Policy
from lakeward.model.quoting import identifier
from lakeward.write.branch.base import Branch
from lakeward.write.commit.publications import publish_backlog
from lakeward.write.spark import file_settings
from lakeward.write.spark.optimize import check_optimize, optimize_sql
from lakeward.write.spark.partition_checks import partition_checks, partition_settings
from lakeward.write.transaction.member import Member

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame


@dataclass(frozen=True, slots=True)
class Relation:
    """The SQL for a table in a statement."""

    sql: str  # replaces the table in FROM, or as the target of a write
    # qualifies the table's columns; None for a view that has an alias
    qualifier: str | None


class SparkFormat(ABC):
    """Reads and writes tables of one format in the Spark session of a transaction."""

    # whether a branch contains the table's files, and so has a version, from the start
    begins_whole: ClassVar[bool]
    takes_subqueries: ClassVar[bool]  # whether UPDATE and DELETE may have subqueries
    # whether one statement can write rows to such a table that it reads from Delta tables with
    # deletion vectors; see `lakeward.engines.spark.plans`
    takes_vectors: ClassVar[bool]

    def __init__(self, context: LakeContext, workspace: Workspace) -> None:
        self._context = context
        self._workspace = workspace

    @abstractmethod
    def session_settings(self, policy: Policy, member: Member) -> dict[str, str]:
        """Return the session settings by which Spark writes files according to a policy."""

    @abstractmethod
    def branch_settings(self, policy: Policy, definition: Definition) -> dict[str, str]:
        """Return the branch properties by which Spark writes files according to a policy."""

    @abstractmethod
    def to_read(self, name: TableName) -> Relation:
        """Return the SQL by which statements read a table that was registered in the session."""

    @abstractmethod
    def to_write(self, name: TableName) -> Relation:
        """Return the SQL by which statements write a table whose branch `enter` registered."""

    def to_append(self, branch: Branch, *, is_entered: bool) -> str:  # noqa: ARG002  of use to Delta
        """Return the name of a branch for SQL that only inserts rows.

        `is_entered` is whether the branch is registered in the session.
        """
        return self.to_write(branch.head.name).sql

    @abstractmethod
    def enter_version(self, head: Head) -> None:
        """Register a version of a table in the session, under its name, for reading."""

    @abstractmethod
    def enter(self, branch: Branch) -> None:
        """Register a branch in the session, under the table's name, for reading and writing."""

    @abstractmethod
    def enter_again(self, branch: Branch) -> None:
        """Register a branch again, after its definition changed."""

    @abstractmethod
    def leave(self, branch: Branch) -> None:
        """Unregister a branch, so that another table can have its name."""

    def update(self, branch: Branch, *, is_entered: bool) -> None:  # noqa: B027  of use to Iceberg
        """Update the branch's `document` after Spark wrote the branch."""

    @abstractmethod
    def pinned(self, head: Head, branch: Branch | None, live: Callable[[], Relation]) -> Relation:
        """Return a relation with the current rows, which later writes do not change.

        `live` registers the table if needed, and returns its relation.
        """

    @abstractmethod
    def at_version(self, head: Head, version: int, definition: Definition) -> Relation:
        """Return a relation with the rows of a version, and the columns of its definition."""

    @abstractmethod
    def net(self, branch: Branch) -> Net:
        """Return the net effect of the commits on a branch."""

    def added(self, branch: Branch) -> DataFrame | None:  # noqa: ARG002  of use to Delta
        """Return the rows on a branch that has none of the table's files; None if not possible."""
        return None

    def may_have_vectors(self, definition: Definition) -> bool:  # noqa: ARG002  of use to Delta
        """Return whether a table may have Delta's deletion vectors."""
        return False

    def check_optimize(self, definition: Definition, statement: Statement, table: str) -> None:  # noqa: B027
        """Raise an error if the format does not support an OPTIMIZE."""

    def optimize(
        self,
        definition: Definition,  # noqa: ARG002  of use to Iceberg
        statement: Statement,  # noqa: ARG002  of use to Iceberg
        name: TableName,  # noqa: ARG002  of use to Iceberg
    ) -> str | None:
        """Return the statement to run instead of an OPTIMIZE; None if it runs unchanged."""
        return None


class DeltaInSpark(SparkFormat):
    """Delta tables: in databases of the transaction, with the branches' directories as tables."""

    begins_whole: ClassVar[bool] = False
    takes_subqueries: ClassVar[bool] = False
    takes_vectors: ClassVar[bool] = True

    def session_settings(self, policy: Policy, member: Member) -> dict[str, str]:
        """Return the settings for codec, size and filters of files, and checks of partitions."""
        size = 0.0
        if policy.target_file_size is not None:
            totals = None if member.change.is_new else member.seen().totals()
            size = file_settings.row_bytes(member.change.definition.schema, totals)
        found = file_settings.of_delta(policy, size)
        definition = member.change.definition
        if policy.bloom_filters:
            stored = format_of(member.change.head).stored(definition).schema
            found |= file_settings.blooms_of_delta(policy, definition, stored)
        return found | partition_settings(definition)

    def branch_settings(self, policy: Policy, definition: Definition) -> dict[str, str]:
        """Return the properties for the columns with statistics, and checks of partitions."""
        return file_settings.branch_of_delta(policy, definition) | partition_checks(definition)

    def to_read(self, name: TableName) -> Relation:
        """Return the Spark view of a table, for statements that read it."""
        return self._relation(name, written=False)

    def to_write(self, name: TableName) -> Relation:
        """Return the Spark table on the transaction's branch, for statements that write it."""
        return self._relation(name, written=True)

    def to_append(self, branch: Branch, *, is_entered: bool) -> str:
        """Return the branch's name, or its path if it is not registered, because that is slow."""
        if is_entered:
            return self.to_write(branch.head.name).sql
        self._workspace.delta_logs.add(branch.location)
        return identifier("delta", branch.location)

    def enter_version(self, head: Head) -> None:
        """Register a version of a table; publish it first if it is not published."""
        storage, name = self._context.storage, head.name
        if not storage.exists(commit_path(head.location, head.version)):
            publish_backlog(self._context, head)
        place = storage.uri(head.location)
        self._workspace.enter_version(name.namespace, name.name, place, head.version)

    def enter(self, branch: Branch) -> None:
        """Register the branch's directory."""
        name = branch.head.name
        self._workspace.delta_logs.add(branch.location)
        self._workspace.enter_delta(name.namespace, name.name, branch.location)

    def leave(self, branch: Branch) -> None:
        """Unregister the branch's directory."""
        name = branch.head.name
        self._workspace.leave_delta(name.namespace, name.name)

    def enter_again(self, branch: Branch) -> None:
        """Refresh the columns under which Spark sees the branch, after an alteration."""
        name = branch.head.name
        self._workspace.show_delta(name.namespace, name.name)

    def pinned(self, head: Head, branch: Branch | None, live: Callable[[], Relation]) -> Relation:
        """Return the branch at its current version."""
        found = live()
        if branch is None:
            # Its name may mean the branch later; what reads it now keeps the version.
            return found
        written = self.to_write(head.name)
        return Relation(f"{written.sql} VERSION AS OF {branch.version}", written.qualifier)

    def at_version(self, head: Head, version: int, definition: Definition) -> Relation:  # noqa: ARG002
        """Return a version of a table; publish it first if it is not published."""
        if not self._context.storage.exists(commit_path(head.location, version)):
            publish_backlog(self._context, head)
        place = identifier("delta", self._context.storage.uri(head.location))
        return Relation(f"(SELECT * FROM {place} VERSION AS OF {version})", None)

    def net(self, branch: Branch) -> Net:
        """Return the net effect of the branch's commits; Spark writes change files if needed."""
        return branch.net(differ=self._write_difference)

    def added(self, branch: Branch) -> DataFrame | None:
        """Return the rows at the branch's current version, without rows that are added later."""
        reader = self._workspace.session.read.format("delta")
        return reader.option("versionAsOf", branch.version).load(branch.location)

    def may_have_vectors(self, definition: Definition) -> bool:
        """Return whether the table's protocol allows deletion vectors."""
        return "deletionVectors" in (definition.protocol.get("readerFeatures") or ())

    def _relation(self, name: TableName, *, written: bool) -> Relation:
        workspace = self._workspace
        database = workspace.database(name.namespace, name.name, written=written)
        known = workspace.delta_name(name.namespace, name.name, written=written)
        return Relation(known, identifier(database, name.name))

    def _write_difference(self, task: Difference) -> None:
        session = self._workspace.session
        write_difference(session, task.before, task.after, task.target, task.columns)


class IcebergInSpark(SparkFormat):
    """Iceberg tables: in a catalog in memory that points to the branches' metadata documents."""

    begins_whole: ClassVar[bool] = True
    takes_subqueries: ClassVar[bool] = True
    takes_vectors: ClassVar[bool] = False

    def session_settings(self, policy: Policy, member: Member) -> dict[str, str]:  # noqa: ARG002
        """Return the setting for the codec of files."""
        return file_settings.of_iceberg(policy)

    def branch_settings(self, policy: Policy, definition: Definition) -> dict[str, str]:
        """Return the properties for the size of files, and columns with statistics and filters."""
        return file_settings.branch_of_iceberg(policy, definition)

    def to_read(self, name: TableName) -> Relation:
        """Return the table in Lakeward's Iceberg catalog of the Spark session."""
        own = identifier(name.namespace or NAMESPACE, name.name)
        return Relation(self._workspace.iceberg_name(name.namespace, name.name), own)

    def to_write(self, name: TableName) -> Relation:
        """Return the same table as `to_read`; its columns keep their qualifiers."""
        return Relation(self._workspace.iceberg_name(name.namespace, name.name), None)

    def enter_version(self, head: Head) -> None:
        """Register the table's current metadata document."""
        self._workspace.enter_iceberg(head.name.namespace, head.name.name, str(head.pointer))

    def enter(self, branch: Branch) -> None:
        """Register the branch's metadata document."""
        name = branch.head.name
        self._workspace.enter_iceberg(name.namespace, name.name, str(branch.document))

    def leave(self, branch: Branch) -> None:
        """Unregister the branch's metadata document."""
        name = branch.head.name
        self._workspace.leave_iceberg(name.namespace, name.name)

    def enter_again(self, branch: Branch) -> None:
        """Register the branch's new document."""
        self.enter(branch)

    def update(self, branch: Branch, *, is_entered: bool) -> None:
        """Set the branch's `document` to the newest metadata document in the session."""
        if is_entered:
            name = branch.head.name
            branch.document = self._workspace.document(name.namespace, name.name)

    def pinned(self, head: Head, branch: Branch | None, live: Callable[[], Relation]) -> Relation:  # noqa: ARG002
        """Return the newest document, registered under a name that no statement writes."""
        space, name = head.name.namespace, head.name.name
        document = str(head.pointer) if branch is None else self._workspace.document(space, name)
        pinned, own = self._workspace.pin_iceberg(space, name, document)
        return Relation(own, identifier(pinned, name))

    def at_version(self, head: Head, version: int, definition: Definition) -> Relation:
        """Return the snapshot of the version, from the newest document."""
        number = format_of(head).snapshot_id(self._context, head, version)
        if number is None:
            # A table that has no snapshot yet has no rows, and may have had other columns.
            workspace = self._workspace
            empty = no_rows(workspace.session, definition.schema.to_arrow())
            return Relation(identifier(workspace.named(empty)), None)
        space, name = head.name.namespace, head.name.name
        _, own = self._workspace.pin_iceberg(space, name, str(head.pointer))
        return Relation(f"(SELECT * FROM {own} VERSION AS OF {number})", None)

    def net(self, branch: Branch) -> Net:
        """Return the files that the branch's newest metadata adds to and removes from the table."""
        return branch.net()

    def check_optimize(self, definition: Definition, statement: Statement, table: str) -> None:
        """Raise an error for an OPTIMIZE that Iceberg's procedure does not support."""
        check_optimize(definition, statement, table)

    def optimize(self, definition: Definition, statement: Statement, name: TableName) -> str:
        """Return a call of Iceberg's procedure."""
        return optimize_sql(
            definition,
            statement,
            table=str(name),
            target=self.to_write(name).sql,
            procedures=self._workspace.procedures,
        )


ADAPTERS: Final[Mapping[str, type[SparkFormat]]] = {
    "delta": DeltaInSpark,
    "iceberg": IcebergInSpark,
}
