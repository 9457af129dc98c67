"""The tables of a lake: made, adopted, cloned, branched and dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.context import LakeContext
from lakeward.lake.table import Table
from lakeward.lake.transactions import Transactions
from lakeward.log import heads
from lakeward.model import arguments
from lakeward.model.constraints import Constraint
from lakeward.model.names import TableName
from lakeward.model.progress import Progress, reported

if TYPE_CHECKING:
    from lakeward.lake.branch import Branch
    from lakeward.lake.rest_catalog import RestCatalog
    from lakeward.model.policy.policy import Policy


class Tables:
    """The part of a lake that makes and finds tables."""

    _context: LakeContext
    _transactions: Transactions

    def create(
        self,
        name: str,
        schema: Any = None,
        *,
        like: Any = None,
        if_not_exists: bool = False,
        format: str = "delta",  # noqa: A002  the name users know
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        policy: Policy | Mapping[str, Any] | None = None,
        constraints: Mapping[str, str | Constraint] | None = None,
        comment: str | None = None,
        guard: bool = True,
    ) -> Table:
        """Make an empty table.

        Args:
            name: `name` or `namespace.name`.
            schema: A `pyarrow.Schema`, a mapping of names to types, or text such as
                `id int64 not null, price decimal(10,2)`. Types may have their usual SQL names.
            like: Instead of a schema, something that has the columns: a frame of pandas or Polars,
                an Arrow table or reader, a schema of Polars or pandas, a table of a lake, or the
                path of a file, on an object store too. Its rows are not taken.
            if_not_exists: Return the table that has the name, if there is one, as it is.
            format: `delta` or `iceberg`.
            partition_by: Columns whose values split the table into directories, and transforms of
                columns: `day(ts)`, `bucket(16, id)`, `truncate(4, name)`.
            properties: Table properties, as the format names them.
            policy: A `Policy`, or a mapping: `target_file_size`, `compression`, `append_only`, …
            constraints: By name: a SQL boolean expression that every row must satisfy, or a
                `lw.Check`, `lw.Unique` or `lw.ForeignKey`.
            comment: A description for people.
            guard: Keep out writers that do not use Lakeward. Iceberg tables are always written
                through the lake's catalog, which other engines can open.

        Raises:
            InvalidInput: An argument is wrong, or not possible in this format. Nothing was created.
            AlreadyExists: The name is in use, or there is a table at the new location.
            MissingExtra: Iceberg tables need `lakeward[iceberg]`.
        """
        from lakeward.write.tables import create as tables

        self._context.database.check_writable()
        parsed = TableName.parse(name)
        tables.create(
            self._context,
            parsed,
            schema,
            like=like,
            if_not_exists=arguments.flag(if_not_exists, "if_not_exists"),
            format=format,
            partition_by=partition_by,
            properties=properties,
            policy=policy,
            constraints=constraints,
            comment=comment,
            guard=guard,
        )
        return Table(self._context, parsed, self._transactions)

    def adopt(
        self,
        name: str,
        location: str | Path,
        *,
        guard: bool = True,
        drift: str = "adopt",
        take_over: bool = False,
        format: str | None = None,  # noqa: A002  the name users know
        catalog: Mapping[str, str] | str | None = None,
        progress: Progress | None = None,
    ) -> Table:
        """Adopt an existing Delta or Iceberg table with its history; no file moves.

        Args:
            name: The table's name in the lake.
            location: The table's directory. For an Iceberg table also a metadata file or, with
                `catalog`, its name in that catalog.
            guard: Keep other writers out of a Delta table from now on. An unguarded table (False)
                cannot be in one transaction with other tables.
            drift: If others can write the table, `adopt` their commits or `refuse` them.
            take_over: Adopt a table that belongs to another lake, because that lake no longer
                exists.
            format: `delta` or `iceberg`, if the location has both.
            catalog: The Iceberg catalog that has the table, as properties for pyiceberg: `{"type":
                "sql", "uri": ...}`. It is only read, never changed. `"lakeward"` is the lake's own
                catalog, for a table that another engine made there.
            progress: Called with the number of versions read, and of all versions.

        Raises:
            TableNotFound: There is no table.
            AlreadyExists: The lake has the table already, or it belongs to another lake.
            CorruptTable: Its log or metadata cannot be understood. Nothing was changed.
            UnsupportedFeature: The table uses a feature that Lakeward cannot read. Nothing was
                changed.
        """
        from lakeward.write.tables.adopt import adopt

        self._context.database.check_writable()
        parsed = TableName.parse(name)
        place = arguments.place(location, "location")
        with reported(progress):
            adopt(
                self._context,
                parsed,
                place,
                guard=arguments.flag(guard, "guard"),
                drift=drift,
                take_over=arguments.flag(take_over, "take_over"),
                format=arguments.optional_text(format, "format"),
                catalog=catalog,
            )
        return Table(self._context, parsed, self._transactions)

    def table(self, name: str) -> Table:
        """The table of this name.

        Raises:
            TableNotFound: There is none.
        """
        parsed = TableName.parse(name)
        with self._context.database.read() as session:
            heads.get(session, parsed)
        return Table(self._context, parsed, self._transactions)

    def tables(self) -> list[Table]:
        """All tables, by name."""
        with self._context.database.read() as session:
            return [
                Table(self._context, h.name, self._transactions) for h in heads.all_heads(session)
            ]

    def drop(self, name: str) -> None:
        """Take a table out of the lake. Its files stay until they are vacuumed.

        Raises:
            TableNotFound: There is no such table.
            Locked: A transaction holds it.
        """
        from lakeward.write.tables import create as tables

        self._context.database.check_writable()
        tables.drop(self._context, TableName.parse(name))

    def clone(
        self,
        source: str,
        name: str,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> Table:
        """Make a table of another one's files, as they are now or were: nothing is copied.

        Later changes of one do not change the other. Files that a clone uses are safe from any
        cleaning of the source, until the clone is dropped.

        Args:
            source: The table whose files are taken.
            name: What the new table is called.
            version: The source's version; the newest unless given.
            timestamp: A moment, instead of a version.

        Raises:
            TableNotFound: There is no such source.
            VersionNotFound: It has no such version.
            AlreadyExists: The name is taken.
            UnsupportedFeature: The source uses what a clone could not keep right.
        """
        from lakeward.write.tables.clone import clone

        self._context.database.check_writable()
        chosen = TableName.parse(name)
        found = self.table(source).at(version=version, timestamp=timestamp)
        clone(self._context, found, chosen)
        return Table(self._context, chosen, self._transactions)

    def branch(self, name: str, *, tables: Sequence[str] | None = None) -> Branch:
        """A zero-copy working copy of tables, for any engine, until it is published or dropped.

        Args:
            name: What it is called.
            tables: Makes a new branch of these tables, as they are now; None for one that exists.

        Raises:
            NotFound: There is no branch of this name.
            AlreadyExists: There is one, and tables were given.
            UnsupportedFeature: One of the tables cannot be branched.
        """
        from lakeward.lake.branch import branch_of

        if tables is not None:
            self._context.database.check_writable()
        return branch_of(self._context, self._transactions.begin, name, tables)

    def iceberg_catalog(self) -> RestCatalog:
        """The lake's Iceberg tables as the service offers them to other engines over HTTP."""
        from lakeward.lake.rest_catalog import RestCatalog

        return RestCatalog(self._context, self._transactions, self.create)

    def branches(self) -> list[Branch]:
        """The named branches, by name."""
        from lakeward.lake.branch import branches_of

        return branches_of(self._context, self._transactions.begin)
