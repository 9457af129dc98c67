"""Compaction and clustering of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lakeward.model import arguments

if TYPE_CHECKING:
    from lakeward.context import LakeContext
    from lakeward.lake.transactions import Transactions
    from lakeward.model.health import Health
    from lakeward.model.maintenance import Maintained
    from lakeward.model.names import TableName
    from lakeward.read.snapshot import TableSnapshot


class Optimizable:
    """The part of a table's interface that optimizes the layout of its files."""

    _context: LakeContext
    _name: TableName
    _transactions: Transactions

    def optimize(
        self,
        *,
        zorder: Sequence[str] | str | None = None,
        hilbert: Sequence[str] | str | None = None,
        sort: Sequence[str] | str | None = None,
        where: str | None = None,
        target_size: int | str | None = None,
        purge: bool = False,
        dry_run: bool = False,
        budget: object = None,
        progress: Callable[[int, int | None], None] | None = None,
        spark: Any = None,
    ) -> Maintained:
        """Compact small files, cluster rows by columns, and purge deleted rows.

        Rewrites only files where that pays off. The rows do not change, so streams and change feeds
        see nothing of it. Each unit of work is one version. Writers never wait or fail: files that
        others changed meanwhile are left to the next run.

        Args:
            zorder: Columns to cluster by on a Z-order curve, so that conditions on any of them
                skip files.
            hilbert: Columns to cluster by on a Hilbert curve.
            sort: Columns to sort by, the first one first.
            where: Only files that may have matching rows; a condition on partitions is exact.
            target_size: Size of a file on disk, in bytes or as `256mb`; the table's policy when
                None.
            purge: Rewrite every file that has deleted rows, however few, or no statistics.
            dry_run: Return the plan and change nothing.
            budget: No unit of work begins after this time: `30m`, seconds or a `timedelta`.
            progress: Called with the number of units done, and of all units.
            spark: A Spark session that does the work in one transaction; for compaction and
                `zorder`, without `target_size` and `purge`.

        Raises:
            InvalidInput: A column is unknown, nested, or partitions the table; or the budget is
                shorter than the smallest unit.
            UnsupportedFeature: The table's files cannot be rewritten by this engine.
        """
        from lakeward.maintain import jobs
        from lakeward.maintain.optimize import planning
        from lakeward.maintain.optimize.asked import Asked
        from lakeward.maintain.optimize.run import Optimizer
        from lakeward.model.layout import layout_of
        from lakeward.model.maintenance import Maintained

        arguments.flag(purge, "purge")
        arguments.flag(dry_run, "dry_run")
        snapshot = self._snapshot()
        layout = layout_of(
            snapshot.definition, str(self._name), zorder=zorder, hilbert=hilbert, sort=sort
        )
        asked = Asked(
            layout,
            arguments.optional_text(where, "where"),
            planning.checked_target(snapshot.log_head, snapshot.definition, target_size),
            purge,
            target_size is not None,
        )
        limit = jobs.Budget.of(budget)
        plan = planning.plan_optimize(self._context, snapshot, asked, on_spark=spark is not None)
        if dry_run:
            return Maintained(plan)
        self._context.database.check_writable()
        planning.check_budget(plan, limit.seconds_left)
        if spark is None:
            execute = Optimizer(self._context, self._transactions.for_maintenance)
            job = jobs.run(self._context, plan, execute, budget=limit, progress=progress)
        else:
            from lakeward.maintain.optimize.on_spark import SparkOptimizer

            begin = self._transactions.begin
            run = SparkOptimizer(
                lambda: begin(isolation="snapshot", message=None, spark=spark),
                asked,
                snapshot.schema,
            )
            job = jobs.run(self._context, plan, run, budget=limit, progress=progress)
        return Maintained(plan, job)

    def health(self) -> Health:
        """Return how well the table's files are laid out: a score up to 100, and reasons.

        Reads the log only, no files. Each reason has the command that fixes it.
        """
        from lakeward.maintain.health import examine_table

        return examine_table(self._context, self._snapshot())

    def _snapshot(self) -> TableSnapshot:
        from lakeward.read import snapshot as snapshots
        from lakeward.write.commit.publications import current

        head = current(self._context, self._name)
        with self._context.database.read() as session:
            return snapshots.latest(self._context, session, head)
