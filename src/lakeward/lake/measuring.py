"""The metrics of a lake, its lineage, and the quality of its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lakeward.context import LakeContext
from lakeward.model import arguments

if TYPE_CHECKING:
    from lakeward.model.lineage.graph import Lineage
    from lakeward.model.metrics import LakeMetrics
    from lakeward.model.quality.report import Quality

_TABLES: Final = 100


class Measuring:
    """The part of a lake that observes it."""

    _context: LakeContext

    def lineage(self, *, transaction: str | None = None) -> Lineage:
        """Which tables and columns come from which, over the whole lake.

        Args:
            transaction: Only what this transaction wrote, by its id.
        """
        from lakeward.read.lineage import lake_lineage

        own = arguments.optional_text(transaction, "transaction")
        return lake_lineage(self._context, own)

    def quality(
        self, *, tables: Sequence[str] | None = None, measure: bool = True
    ) -> list[Quality]:
        """Measure the expectations of tables, and return the quality of each table that has some.

        Args:
            tables: Only these; all tables unless given.
            measure: False to return what was measured before.

        Raises:
            TableNotFound: The lake has no such table.
        """
        every: Callable[[], list[Any]] = self.tables  # type: ignore[attr-defined]
        if tables is None:
            found = every()
        else:
            names = arguments.texts(tables, "tables")
            found = [self.table(name) for name in names]  # type: ignore[attr-defined]
        chosen = [t for t in found if t.at().policy.policy.expectations]
        return [t.quality(measure=measure) for t in chosen]

    def metrics(
        self, *, tables: int = _TABLES, health: bool = False, process: bool = True
    ) -> LakeMetrics:
        """The lake in numbers, under names that Prometheus understands.

        What the log knows is that of all processes: tables, transactions, locks, publication, runs,
        sinks. What was counted and timed is that of this object alone.

        Args:
            tables: How many tables have labels of their own, those with the newest commits first.
                The others are summed up as `other`; the same holds for pipelines, writers and
                consumers.
            health: Whether to score the files of the tables that are shown, which takes longer.
            process: Whether to include what this object counted.
        """
        from lakeward.model.metrics import Sample, gauge
        from lakeward.read.metrics import metrics

        most = arguments.whole(tables, "tables")
        found = metrics(self._context, most, process=process)
        if not health:
            return found
        every: Callable[[], list[Any]] = self.tables  # type: ignore[attr-defined]
        newest = sorted(every(), key=lambda t: t.at().timestamp, reverse=True)[:most]
        samples = [Sample({"table": t.name}, t.health().score) for t in newest]
        about = "Score of a table's files: 100 at best."
        score = gauge("lakeward_table_health_score", about, samples)
        return replace(found, metrics=(*found.metrics, score))
