"""The methods of a lake that create, adopt, find, clone, branch, rename and drop tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.context import LakeContext
from lakeward.lake.transactions import Transactions
from lakeward.log import heads
from lakeward.model import arguments
from lakeward.model.constraints import Constraint
from lakeward.model.names import TableName
from lakeward.model.progress import Progress, reported

if TYPE_CHECKING:
    from lakeward.lake.branch import Branch
    from lakeward.lake.rest_catalog import RestCatalog
    from lakeward.lake.table import Table
    from lakeward.model.policy.policy import Policy


class Tables:
    """The part of a lake's interface that creates and returns tables and branches."""

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
        """Create an empty table.

        Args:
            name: `name` or `namespace.name`.
            schema: A `pyarrow.Schema`, a mapping of names to types, or text such as
                `id int64 not null, price decimal(10,2)`. Types may have their usual SQL names.
            like: Instead of a schema, something that has the columns: a frame of pandas or Polars,
                an Arrow table or reader, a schema of Polars or pandas, a table of a lake, or the
                path of a file, on an object store too. Its rows are not inserted.
            if_not_exists: If a table of this name exists, return it unchanged instead of raising.
            format: `delta` or `iceberg`.
            partition_by: Columns whose values split the table into directories, and transforms of
                columns: `day(ts)`, `bucket(16, id)`, `truncate(4, name)`.
            properties: Table properties, by their names in the format.
            policy: A `Policy`, or a mapping: `target_file_size`, `compression`, `append_only`, …
            constraints: By name: a SQL boolean expression that every row must satisfy, or a
                `lw.Check`, `lw.Unique`, `lw.ForeignKey` or `lw.NotNull`.
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
        return self._table_of(parsed)

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
                exists, or has dropped the table. Unless `guard` is False, this commits to it.
            format: `delta` or `iceberg`, if the location has both.
            catalog: The Iceberg catalog that has the table, as properties for pyiceberg: `{"type":
                "sql", "uri": ...}`. It is only read, never changed. `"lakeward"` is the lake's own
                catalog, for a table that another engine made there.
            progress: Called with the number of versions read, and of all versions.

        Raises:
            TableNotFound: There is no table.
            AlreadyExists: The lake has the table already, or it belongs to another lake.
            Conflict: Vacuum deletes the files of a dropped table of the lake at this location.
                Nothing was adopted.
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
        return self._table_of(parsed)

    def table(self, name: str) -> Table:
        """Return the table of this name.

        Raises:
            TableNotFound: There is no such table.
        """
        parsed = TableName.parse(name)
        with self._context.database.read() as session:
            heads.get(session, parsed)
        return self._table_of(parsed)

    def tables(self) -> list[Table]:
        """Return all tables, by name."""
        with self._context.database.read() as session:
            names = heads.names(session)
        return [self._table_of(name) for name in names]

    def drop(self, name: str) -> None:
        """Drop a table. Its files stay until they are vacuumed.

        Raises:
            TableNotFound: There is no such table.
            Locked: A transaction has a lock on the table.
        """
        from lakeward.write.tables import create as tables

        self._context.database.check_writable()
        tables.drop(self._context, TableName.parse(name))

    def rename(self, name: str, new: str) -> Table:
        """Rename a table. It keeps its files, its history and its id.

        Args:
            name: The table's present name.
            new: The table's new name, in any namespace.

        Raises:
            TableNotFound: There is no such table.
            AlreadyExists: The new name is taken.
            InvalidInput: A foreign key or a branch refers to the table by its name.
            PolicyViolation: Other policies apply to the new name.
            Locked: A transaction has a lock on the table.
        """
        from lakeward.write.tables.rename import rename

        self._context.database.check_writable()
        parsed = TableName.parse(new)
        rename(self._context, TableName.parse(name), parsed)
        return self._table_of(parsed)

    def clone(
        self,
        source: str,
        name: str,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> Table:
        """Create a table from the files of a version of another table, without copying them.

        Later changes of one table do not change the other. Vacuum of the source keeps the files
        that a clone uses, until the clone is dropped.

        Args:
            source: The table whose files are used.
            name: The name of the new table.
            version: The source's version; the newest unless given.
            timestamp: A time, for the newest version that is not later.

        Raises:
            TableNotFound: There is no such source.
            VersionNotFound: The source has no such version.
            AlreadyExists: The name is in use.
            ConstraintViolation: Rows violate a policy that the name matches, or refer by a foreign
                key to rows that are no longer there.
            UnsupportedFeature: The source uses a feature that a clone cannot keep.
        """
        from lakeward.write.tables.clone import clone

        self._context.database.check_writable()
        chosen = TableName.parse(name)
        found = self.table(source).at(version=version, timestamp=timestamp)
        clone(self._context, found, chosen)
        return self._table_of(chosen)

    def branch(self, name: str, *, tables: Sequence[str] | None = None) -> Branch:
        """Return a branch: a working copy of tables, for any engine, that copies no data.

        Args:
            name: The name of the branch.
            tables: Make a new branch of these tables, as they are now; None to return an existing
                branch.

        Raises:
            NotFound: There is no branch of this name.
            AlreadyExists: There is a branch of this name, and `tables` is given.
            UnsupportedFeature: One of the tables cannot be branched.
        """
        from lakeward.lake.branch import branch_of

        if tables is not None:
            self._context.database.check_writable()
        return branch_of(self._context, self._transactions.begin, name, tables)

    def iceberg_catalog(self) -> RestCatalog:
        """Return the Iceberg catalog of the lake, which the service offers over HTTP."""
        from lakeward.lake.rest_catalog import RestCatalog

        return RestCatalog(self._context, self._transactions)

    def branches(self) -> list[Branch]:
        """Return the named branches, by name."""
        from lakeward.lake.branch import branches_of

        return branches_of(self._context, self._transactions.begin)

    def _table_of(self, name: TableName) -> Table:
        from lakeward.lake.table import Table

        return Table(self._context, name, self._transactions)
