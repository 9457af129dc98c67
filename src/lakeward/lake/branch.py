"""Named branches and their tables: the objects that `lake.branch` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import TableNotFound
from lakeward.log import branches, heads
from lakeward.model import arguments
from lakeward.model.clock import to_datetime
from lakeward.model.expressions.where import parse
from lakeward.model.names import TableName
from lakeward.model.parameters import Params, where_text
from lakeward.model.schema import Schema
from lakeward.model.shown import Shown
from lakeward.read.auditing import audit_read
from lakeward.read.readable import Readable
from lakeward.read.scan import check_columns
from lakeward.write.branch import base
from lakeward.write.branch import named as named_branch
from lakeward.write.branch.base import Differ
from lakeward.write.branch.named import BranchDiff, NamedBranch

if TYPE_CHECKING:
    from lakeward.write.transaction.lifecycle import CommitResult
    from lakeward.write.transaction.transaction import Transaction


class BranchTableInfo(NamedTuple):
    """A table of a branch: the version that it was made from, and its directory on the branch."""

    table: str
    base_version: int
    location: str


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """A branch with its tables, who made it and when."""

    branch: str
    actor: str
    created: datetime
    tables: tuple[BranchTableInfo, ...]


class BranchTable(Readable):
    """A table on a branch, which any engine can read and write.

    Engines open a Delta table at its `location`. They open an Iceberg table in the catalog
    `catalog`, which is in the same store as the lake's catalog.
    """

    def __init__(self, context: LakeContext, branch: base.Branch) -> None:
        self._context = context
        self._branch = branch

    def __repr__(self) -> str:
        return f"BranchTable({self.name!r}, {self.location!r})"

    @property
    def name(self) -> str:
        """The table's full name."""
        return str(self._branch.head.name)

    @property
    def location(self) -> str:
        """The directory where a Delta table is read and written, and an Iceberg one written."""
        return self._branch.location

    @property
    def format(self) -> str:
        """`delta` or `iceberg`."""
        return self._branch.head.format

    @property
    def catalog(self) -> str | None:
        """The name of the catalog for engines that open an Iceberg table; None for Delta."""
        return self._branch.catalog

    @property
    def metadata_location(self) -> str | None:
        """The newest metadata document of an Iceberg table; None for a Delta table."""
        return self._branch.newest_document

    @property
    def table_id(self) -> int:
        """The table's id in the log."""
        return self._branch.head.table_id

    @property
    def base_version(self) -> int:
        """The version of the table that the branch was made from."""
        return self._branch.head.version

    @property
    def version(self) -> int:
        """The newest version on the branch, in the numbering of the branch."""
        return self._branch.version

    @property
    def schema(self) -> Schema:
        """The columns, as they are on the branch now."""
        return self._branch.current.schema

    def to_reader(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows as they are on the branch now, as a stream of record batches.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        definition = self._branch.current
        check_columns(columns, definition, self.name)
        text = where_text(where, params)
        condition = None if text is None else parse(text, definition.schema)
        with self._context.database.read() as session:
            head = heads.ever_by_id(session, self.table_id)
        audit_read(self._context, head, self.base_version, "branch", columns=columns)
        return self._branch.read(columns, condition).to_reader()


class Branch(Shown):
    """Working copies of tables under one name, until they are published or dropped.

    Changes on a branch are not visible in the lake until it is published, and then all of them are
    at once. Until then maintenance keeps all files that the branch uses or wrote.
    """

    def __init__(
        self, context: LakeContext, begin: Callable[..., Transaction], found: NamedBranch
    ) -> None:
        self._context = context
        self._begin = begin
        self._found = found

    def __repr__(self) -> str:
        return f"Branch({self.name!r}, tables={[t.name for t in self.tables()]})"

    @property
    def name(self) -> str:
        """The name of the branch."""
        return self._found.name

    @property
    def actor(self) -> str:
        """Who made the branch."""
        return self._found.actor

    @property
    def created(self) -> datetime:
        """When the branch was made."""
        return to_datetime(self._found.created_ms)

    def table(self, name: str) -> BranchTable:
        """Return a table of the branch.

        Raises:
            TableNotFound: The branch has no such table.
        """
        found = self._found.tables.get(TableName.parse(name))
        if found is None:
            what = f"The branch {self.name!r} has no table {name}."
            hint = f"It has {', '.join(sorted(map(str, self._found.tables)))}."
            raise TableNotFound(what, hint=hint, table=name)
        return BranchTable(self._context, found)

    def tables(self) -> list[BranchTable]:
        """Return the tables of the branch, by name."""
        return [
            BranchTable(self._context, self._found.tables[n]) for n in sorted(self._found.tables)
        ]

    def info(self) -> BranchInfo:
        """Return the branch as a record."""
        tables = (BranchTableInfo(t.name, t.base_version, t.location) for t in self.tables())
        return BranchInfo(self.name, self.actor, self.created, tuple(tables))

    def diff(self) -> list[BranchDiff]:
        """Return what publishing would change in each table, and the commits it conflicts with.

        Raises:
            PolicyViolation: A policy does not allow the changed columns or properties.
            UnsupportedFeature: Rows of an append-only table were deleted.
        """
        return named_branch.diff(self._context, self._found)

    def publish(
        self,
        *,
        message: str | None = None,
        differ: Differ | None = None,
        sources: Mapping[str, Sequence[str]] | None = None,
    ) -> CommitResult:
        """Commit all changes on the branch in one transaction, and delete the branch.

        Rows are checked as appended rows are. If publishing fails, the branch stays as it is and
        can be published again; a branch is committed only once.

        Args:
            message: Why; kept with the commit.
            differ: The engine that computes the change feed of a table that several statements
                changed; delta-rs unless given.
            sources: For tables of the branch, the tables, files or other addresses that their new
                rows come from, for lineage, because other engines wrote them.

        Raises:
            InvalidInput: Sources are given for a table that the branch does not have.
            Conflict: Others changed what was changed on the branch. Nothing was committed.
            ConstraintViolation: Rows violate a constraint of their table. Nothing was committed.
            UnsupportedFeature: Rows of an append-only table were deleted. Nothing was committed.
            NotFound: The branch was dropped.
        """
        begin = partial(
            self._begin,
            isolation="snapshot",
            message=message,
            transaction_id=self._found.owner,
        )
        known = arguments.mapping(sources, "sources")
        given = {name: arguments.texts(own, f"sources.{name}") for name, own in known.items()}
        return named_branch.publish(self._context, begin, self._found, differ, given)

    def drop(self) -> None:
        """Delete the branch and the files that were written on it.

        Raises:
            NotFound: The branch was published or dropped before. Nothing was deleted.
            Conflict: Another process publishes the branch now. Nothing was deleted.
        """
        named_branch.drop(self._context, self._found)


def branch_of(
    context: LakeContext, begin: Callable[..., Any], name: str, tables: Sequence[str] | None
) -> Branch:
    """Return the branch of this name; make it first if `tables` is given."""
    if tables is None:
        return Branch(context, begin, named_branch.get(context, name))
    wanted = [TableName.parse(t) for t in ([tables] if isinstance(tables, str) else tables)]
    return Branch(context, begin, named_branch.create(context, name, wanted))


def branches_of(context: LakeContext, begin: Callable[..., Any]) -> list[Branch]:
    """Return the named branches, by name."""
    with context.database.read() as session:
        names = dict.fromkeys(b.name for b in branches.named(session) if b.name is not None)
    return [Branch(context, begin, named_branch.get(context, name)) for name in names]
