"""What differs between the table formats in Spark: names, pinned versions, branches, statements.

One adapter per format, chosen by the format's name; nothing else in this package asks for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from lakeward.context import LakeContext
from lakeward.engines.spark.rows import write_difference
from lakeward.engines.spark.statement import Statement
from lakeward.engines.spark.workspace import NAMESPACE, Workspace
from lakeward.formats.delta.changes import Difference
from lakeward.formats.delta.publication import commit_path
from lakeward.formats.net import Net
from lakeward.formats.registry import format_of
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.names import TableName
from lakeward.model.quoting import identifier
from lakeward.write.branch.base import Branch
from lakeward.write.commit.publications import publish_backlog
from lakeward.write.spark.optimize import check_optimize, optimize_sql

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame


@dataclass(frozen=True, slots=True)
class Relation:
    """A table in a statement."""

    sql: str  # what replaces it in FROM, or where it is written
    # what it is called before a column; None for a view that has an alias
    qualifier: str | None


class SparkFormat(ABC):
    """How tables of one format are worked on in the session of a transaction."""

    # whether a branch has the table's files, and so a version, from the start
    begins_whole: ClassVar[bool]
    takes_subqueries: ClassVar[bool]  # whether UPDATE and DELETE may have subqueries
    # whether rows of Delta tables with deletion vectors can be written to it straight from where
    # they are read; see `lakeward.engines.spark.plans`
    takes_vectors: ClassVar[bool]
    compression: ClassVar[str]  # the setting of a session that names the codec of new files

    def __init__(self, context: LakeContext, workspace: Workspace) -> None:
        self._context = context
        self._workspace = workspace

    @abstractmethod
    def to_read(self, name: TableName) -> Relation:
        """How SQL that reads names a table that `enter` or `enter_version` registered."""

    @abstractmethod
    def to_write(self, name: TableName) -> Relation:
        """How SQL that writes names a table whose branch `enter` registered."""

    def to_append(self, branch: Branch, *, is_entered: bool) -> str:  # noqa: ARG002  of use to Delta
        """How SQL that only adds rows names a branch."""
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
        """Update a branch after Spark changed it."""

    @abstractmethod
    def pinned(self, head: Head, branch: Branch | None, live: Callable[[], Relation]) -> Relation:
        """A relation with the present rows, which later writes do not change.

        `live` registers the table where that was not done.
        """

    @abstractmethod
    def at_version(self, head: Head, version: int) -> Relation:
        """Return a relation with the rows of an older version."""

    @abstractmethod
    def net(self, branch: Branch) -> Net:
        """The net effect of what was done on a branch."""

    def added(self, branch: Branch) -> DataFrame | None:  # noqa: ARG002  of use to Delta
        """The rows on a branch without the table's files; None where that is unknown."""
        return None

    def may_have_vectors(self, definition: Definition) -> bool:  # noqa: ARG002  of use to Delta
        """Whether a table may have Delta's deletion vectors."""
        return False

    def check_optimize(self, definition: Definition, statement: Statement, table: str) -> None:  # noqa: B027
        """Refuse an OPTIMIZE that cannot be done."""

    def optimize(
        self,
        definition: Definition,  # noqa: ARG002  of use to Iceberg
        statement: Statement,  # noqa: ARG002  of use to Iceberg
        name: TableName,  # noqa: ARG002  of use to Iceberg
    ) -> str | None:
        """The statement that runs instead of an OPTIMIZE; None where it runs as it is."""
        return None


class DeltaInSpark(SparkFormat):
    """Delta tables: databases of the transaction's own, whose tables lie on the branches."""

    begins_whole: ClassVar[bool] = False
    takes_subqueries: ClassVar[bool] = False
    takes_vectors: ClassVar[bool] = True
    compression: ClassVar[str] = "spark.sql.parquet.compression.codec"

    def to_read(self, name: TableName) -> Relation:
        """The Spark view of a table that a statement reads."""
        return self._relation(name, written=False)

    def to_write(self, name: TableName) -> Relation:
        """The Spark table, on the transaction's branch, that a statement writes."""
        return self._relation(name, written=True)

    def to_append(self, branch: Branch, *, is_entered: bool) -> str:
        """The branch's path, where it has no name: to give it one costs more than the branch."""
        if is_entered:
            return self.to_write(branch.head.name).sql
        return identifier("delta", branch.location)

    def enter_version(self, head: Head) -> None:
        """Register a published version; publish it first if that was not done."""
        storage, name = self._context.storage, head.name
        if not storage.exists(commit_path(head.location, head.version)):
            publish_backlog(self._context, head)
        place = storage.uri(head.location)
        self._workspace.enter_version(name.namespace, name.name, place, head.version)

    def enter(self, branch: Branch) -> None:
        """Register the branch's directory."""
        name = branch.head.name
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
        """The branch at its version."""
        found = live()
        if branch is None:
            # Its name may mean the branch later; what reads it now keeps the version.
            return found
        written = self.to_write(head.name)
        return Relation(f"{written.sql} VERSION AS OF {branch.version}", written.qualifier)

    def at_version(self, head: Head, version: int) -> Relation:
        """Return the published version; publishes it first if necessary."""
        if not self._context.storage.exists(commit_path(head.location, version)):
            publish_backlog(self._context, head)
        place = identifier("delta", self._context.storage.uri(head.location))
        return Relation(f"(SELECT * FROM {place} VERSION AS OF {version})", None)

    def net(self, branch: Branch) -> Net:
        """The branch's commits as one."""
        return branch.net(differ=self._write_difference)

    def added(self, branch: Branch) -> DataFrame | None:
        """The rows at the branch's version, without what is added later."""
        reader = self._workspace.session.read.format("delta")
        return reader.option("versionAsOf", branch.version).load(branch.location)

    def may_have_vectors(self, definition: Definition) -> bool:
        """Whether its protocol allows them."""
        return "deletionVectors" in (definition.protocol.get("readerFeatures") or ())

    def _relation(self, name: TableName, *, written: bool) -> Relation:
        workspace = self._workspace
        database = workspace.database(name.namespace, written=written)
        known = workspace.delta_name(name.namespace, name.name, written=written)
        return Relation(known, identifier(database, name.name))

    def _write_difference(self, task: Difference) -> None:
        session = self._workspace.session
        write_difference(session, task.before, task.after, task.target, task.columns)


class IcebergInSpark(SparkFormat):
    """Iceberg tables: a catalog in memory, whose tables are metadata documents of the branches."""

    begins_whole: ClassVar[bool] = True
    takes_subqueries: ClassVar[bool] = True
    takes_vectors: ClassVar[bool] = False
    compression: ClassVar[str] = "spark.sql.iceberg.compression-codec"

    def to_read(self, name: TableName) -> Relation:
        """The table in our Iceberg catalog of the Spark session."""
        own = identifier(name.namespace or NAMESPACE, name.name)
        return Relation(self._workspace.iceberg_name(name.namespace, name.name), own)

    def to_write(self, name: TableName) -> Relation:
        """The same table; its columns keep their qualifiers."""
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
        """Set the branch's newest metadata document."""
        if is_entered:
            name = branch.head.name
            branch.document = self._workspace.document(name.namespace, name.name)

    def pinned(self, head: Head, branch: Branch | None, live: Callable[[], Relation]) -> Relation:  # noqa: ARG002
        """The newest document, under a name that nobody writes."""
        space, name = head.name.namespace, head.name.name
        document = str(head.pointer) if branch is None else self._workspace.document(space, name)
        pinned, own = self._workspace.pin_iceberg(space, name, document)
        return Relation(own, identifier(pinned, name))

    def at_version(self, head: Head, version: int) -> Relation:
        """Return the snapshot of the version, from the newest document."""
        space, name = head.name.namespace, head.name.name
        _, own = self._workspace.pin_iceberg(space, name, str(head.pointer))
        number = format_of(head).snapshot_id(self._context, head, version)
        # A table that has no snapshot yet has no rows.
        which = "WHERE false" if number is None else f"VERSION AS OF {number}"
        return Relation(f"(SELECT * FROM {own} {which})", None)

    def net(self, branch: Branch) -> Net:
        """The files that the branch's newest metadata adds to and removes from the table."""
        return branch.net()

    def check_optimize(self, definition: Definition, statement: Statement, table: str) -> None:
        """Refuse what Iceberg's procedure cannot do."""
        check_optimize(definition, statement, table)

    def optimize(self, definition: Definition, statement: Statement, name: TableName) -> str:
        """A call of Iceberg's procedure."""
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
