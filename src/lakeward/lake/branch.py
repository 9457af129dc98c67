"""A named branch, as a user holds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import TableNotFound
from lakeward.log import branches
from lakeward.model.clock import to_datetime
from lakeward.model.expressions.where import parse
from lakeward.model.names import TableName
from lakeward.model.parameters import Params, where_text
from lakeward.model.schema import Schema
from lakeward.model.shown import Shown
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
    """A table of a branch: the version that it was made from, and where engines find it."""

    table: str
    base_version: int
    location: str


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """A branch with its tables."""

    branch: str
    actor: str
    created: datetime
    tables: tuple[BranchTableInfo, ...]


class BranchTable(Readable):
    """A table on a branch, for every engine.

    A Delta table is an ordinary one at its location. An Iceberg table is found in the catalog that
    `catalog` names, in the same store as the lake's own.
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
        """The newest version on the branch, by its own count."""
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
        """The rows as they are on the branch now, as record batches.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        definition = self._branch.current
        check_columns(columns, definition, self.name)
        text = where_text(where, params)
        condition = None if text is None else parse(text, definition.schema)
        return self._branch.read(columns, condition).to_reader()


class Branch(Shown):
    """Working copies of tables under one name, until they are published or dropped.

    Nothing that is done on a branch is seen in the lake before it is published, and then all of it
    is at once. Files that a branch uses or wrote are safe from any cleaning meanwhile.
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
        """Its name."""
        return self._found.name

    @property
    def actor(self) -> str:
        """Who made it."""
        return self._found.actor

    @property
    def created(self) -> datetime:
        """When it was made."""
        return to_datetime(self._found.created_ms)

    def table(self, name: str) -> BranchTable:
        """One of its tables.

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
        """Its tables, by name."""
        return [
            BranchTable(self._context, self._found.tables[n]) for n in sorted(self._found.tables)
        ]

    def info(self) -> BranchInfo:
        """The branch as a record."""
        tables = (BranchTableInfo(t.name, t.base_version, t.location) for t in self.tables())
        return BranchInfo(self.name, self.actor, self.created, tuple(tables))

    def diff(self) -> list[BranchDiff]:
        """What publishing would do to each table, and with which commits it would conflict."""
        return named_branch.diff(self._context, self._found)

    def publish(self, *, message: str | None = None, differ: Differ | None = None) -> CommitResult:
        """Commit all that was done on the branch, as one transaction; then the branch is over.

        Rows are checked like appended ones are. When it fails the branch stays as it is, and may be
        published again; published twice it is committed once.

        Args:
            message: Why; kept with the commit.
            differ: The engine that computes the change feed of a table that several statements
                changed; delta-rs unless given.

        Raises:
            Conflict: Others changed what was changed on the branch. Nothing was committed.
            ConstraintViolation: Rows that a check of their table refuses.
        """
        tx = self._begin(isolation="snapshot", message=message, transaction_id=self._found.owner)
        return named_branch.publish(self._context, tx, self._found, differ)

    def drop(self) -> None:
        """Delete the branch with all that was written on it."""
        named_branch.drop(self._context, self._found)


def branch_of(
    context: LakeContext, begin: Callable[..., Any], name: str, tables: Sequence[str] | None
) -> Branch:
    """The branch of this name, made first where its tables are given."""
    if tables is None:
        return Branch(context, begin, named_branch.get(context, name))
    wanted = [TableName.parse(t) for t in ([tables] if isinstance(tables, str) else tables)]
    return Branch(context, begin, named_branch.create(context, name, wanted))


def branches_of(context: LakeContext, begin: Callable[..., Any]) -> list[Branch]:
    """The named branches, by name."""
    with context.database.read() as session:
        names = dict.fromkeys(b.name for b in branches.named(session) if b.name is not None)
    return [Branch(context, begin, named_branch.get(context, name)) for name in names]
