"""Maintenance of a lake and of its tables: plans, runs, and their records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from lakeward.log import heads
from lakeward.model import arguments
from lakeward.model.names import TableName

if TYPE_CHECKING:
    from lakeward.context import LakeContext
    from lakeward.model.commit import Head
    from lakeward.model.maintenance import JobRecord, Maintained

Progress: TypeAlias = Callable[[int, int | None], None]
Length: TypeAlias = str | int | float | timedelta
"""A length of time: `90d`, `30m`, seconds, or a `timedelta`."""


class LakeMaintenance:
    """The part of a lake's interface that maintains all tables."""

    _context: LakeContext

    def vacuum(
        self,
        *,
        tables: Sequence[str] | None = None,
        retention: Length | None = None,
        dry_run: bool = False,
        force: bool = False,
        unknown: bool = False,
        budget: Length | None = None,
        progress: Progress | None = None,
    ) -> Maintained:
        """Delete files that nothing needs, of all tables including dropped ones.

        Args:
            tables: Only these tables; None for all, including dropped ones.
            retention: As in `Table.vacuum`; it is also the grace period of dropped tables.
            dry_run: As in `Table.vacuum`.
            force: As in `Table.vacuum`.
            unknown: As in `Table.vacuum`.
            budget: As in `Table.vacuum`.
            progress: As in `Table.vacuum`.
        """
        names = None if tables is None else [TableName.parse(n) for n in tables]
        return _vacuum(
            self._context,
            names,
            retention=retention,
            dry_run=dry_run,
            force=force,
            unknown=unknown,
            budget=budget,
            progress=progress,
        )

    def checkpoint(
        self,
        *,
        tables: Sequence[str] | None = None,
        dry_run: bool = False,
        budget: Length | None = None,
        progress: Progress | None = None,
    ) -> Maintained:
        """Write a checkpoint of the newest version of tables, so that other engines open them fast.

        The table with the most commits since its last checkpoint comes first. Formats without
        checkpoints are left out.

        Args:
            tables: Only these tables; None for all that have commits since their last checkpoint.
            dry_run: Only plan; nothing is changed.
            budget: Begin no further checkpoint after this time; the next call continues.
            progress: Called with the number of checkpoints written, and of all.
        """
        names = None if tables is None else [TableName.parse(n) for n in tables]
        return _checkpoint(self._context, names, dry_run=dry_run, budget=budget, progress=progress)

    def undrop(self, name: str) -> None:
        """Restore the most recently dropped table of this name, with all its versions.

        Raises:
            TableNotFound: No table of this name was dropped, or vacuum deleted its files.
            AlreadyExists: Another table has the name now.
            ConstraintViolation: Rows violate a policy that was set meanwhile, or refer by a foreign
                key to rows that are no longer there.
            InvalidInput: A foreign key refers to a table or a unique key that is no longer there.
        """
        from lakeward.write.tables.undrop import undrop

        self._context.database.check_writable()
        undrop(self._context, TableName.parse(name))

    def jobs(
        self, *, kind: str | None = None, table: str | None = None, limit: int = 100
    ) -> list[JobRecord]:
        """Return maintenance runs, newest first, with what each of them did and saved.

        Args:
            kind: Only of this kind: `vacuum`, `optimize`, `checkpoint`, `expire`, …
            table: Only of this table.
            limit: How many to return at most.
        """
        from lakeward.log import jobs

        name = None if table is None else str(TableName.parse(table))
        chosen = arguments.optional_text(kind, "kind")
        most = arguments.whole(limit, "limit", least=1)
        with self._context.database.read() as session:
            now = self._context.database.clock_ms(session)
            return jobs.newest(session, now, kind=chosen, table=name, limit=most)


class TableMaintenance:
    """The part of a table's interface that maintains it."""

    _context: LakeContext
    _name: TableName

    def vacuum(
        self,
        *,
        retention: Length | None = None,
        dry_run: bool = False,
        force: bool = False,
        unknown: bool = False,
        budget: Length | None = None,
        progress: Progress | None = None,
    ) -> Maintained:
        """Delete files that no version within the retention, and nothing else, needs.

        Files that a tag, a branch, a clone, a pinned reader, an open transaction or a possibly
        unpublished version needs are kept. Versions that lose files can no longer be read, tagged,
        cloned or restored.

        Args:
            retention: How long versions stay readable: `30d`, `12h`, seconds, or a `timedelta`. The
                table's policy (`retention`) unless given; 90 days if that is not set.
            dry_run: Only plan; nothing is changed.
            force: Allow a retention below 7 days.
            unknown: Also delete files that belong neither to the log nor to a transaction; in
                tables that other engines can write, only those that are 7 days old.
            budget: Begin no further batch of files after this time.
            progress: Called with the number of batches done, and of all batches.

        Raises:
            InvalidInput: The retention is below the floor of 7 days, or the table has the property
                `gc.enabled=false`. Nothing was deleted.
            StoreError: The store is older than the warehouse: it was restored from an old backup.
        """
        return _vacuum(
            self._context,
            [self._name],
            retention=retention,
            dry_run=dry_run,
            force=force,
            unknown=unknown,
            budget=budget,
            progress=progress,
        )

    def checkpoint(
        self,
        *,
        dry_run: bool = False,
        budget: Length | None = None,
        progress: Progress | None = None,
    ) -> Maintained:
        """Write a checkpoint of the newest version, so that other engines open the table faster.

        For a format without checkpoints it does nothing.

        Args:
            dry_run: Only plan; nothing is changed.
            budget: As in `Lake.checkpoint`. One checkpoint is always written, however short it is.
            progress: Called with the number of checkpoints written, and of all.
        """
        return _checkpoint(
            self._context, [self._name], dry_run=dry_run, budget=budget, progress=progress
        )

    def expire(
        self,
        *,
        retention: Length | None = None,
        dry_run: bool = False,
        force: bool = False,
        budget: Length | None = None,
        progress: Progress | None = None,
    ) -> Maintained:
        """Delete published metadata that other engines no longer need.

        For Delta tables: commits and checkpoints before a checkpoint that is older than the
        retention. For Iceberg tables: metadata documents that the newest one no longer lists, and
        manifest lists of vacuumed versions. The log keeps the history.

        Args:
            retention: How long other engines can read old versions of Delta tables: 30 days unless
                the table's `delta.logRetentionDuration` says otherwise.
            dry_run: Only plan; nothing is changed.
            force: Allow a retention below one hour.
            budget: Begin no further batch of files after this time.
            progress: Called with the number of batches done, and of all batches.
        """
        from lakeward.maintain.expire import expire
        from lakeward.maintain.jobs import Budget

        time = Budget.of(budget)
        if not arguments.flag(dry_run, "dry_run"):
            self._context.database.check_writable()
        with self._context.database.read() as session:
            head = heads.get(session, self._name)
        return expire(
            self._context,
            [head],
            retention=retention,
            force=arguments.flag(force, "force"),
            dry_run=dry_run,
            budget=time,
            progress=progress,
        )


def _checkpoint(
    context: LakeContext,
    names: Sequence[TableName] | None,
    *,
    dry_run: bool,
    budget: Length | None,
    progress: Progress | None,
) -> Maintained:
    from lakeward.maintain.checkpoint import checkpoint
    from lakeward.maintain.jobs import Budget

    time = Budget.of(budget)
    chosen = _chosen(context, names, dry_run=dry_run)
    return checkpoint(
        context,
        chosen,
        only_outdated=names is None,
        dry_run=dry_run,
        budget=time,
        progress=progress,
    )


def _vacuum(
    context: LakeContext,
    names: Sequence[TableName] | None,
    *,
    retention: Length | None,
    dry_run: bool,
    force: bool,
    unknown: bool,
    budget: Length | None,
    progress: Progress | None,
) -> Maintained:
    from lakeward.maintain.jobs import Budget
    from lakeward.maintain.vacuum.plan import Limits
    from lakeward.maintain.vacuum.run import vacuum

    limits = Limits.of(
        retention,
        force=arguments.flag(force, "force"),
        unknown=arguments.flag(unknown, "unknown"),
    )
    time = Budget.of(budget)
    chosen = _chosen(context, names, dry_run=dry_run)
    return vacuum(
        context,
        chosen,
        limits,
        dropped=names is None,
        dry_run=dry_run,
        budget=time,
        progress=progress,
    )


def _chosen(
    context: LakeContext, names: Sequence[TableName] | None, *, dry_run: bool
) -> list[Head]:
    """Return the heads of the named tables, or of all; raise an error if a run may not write."""
    if not arguments.flag(dry_run, "dry_run"):
        context.database.check_writable()
    with context.database.read() as session:
        if names is None:
            return heads.all_heads(session)
        return [heads.get(session, name) for name in names]
