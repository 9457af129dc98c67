"""The metrics of a lake, its lineage, the quality of its tables, and its service levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.model import arguments, event_names
from lakeward.model.clock import now_ms, to_datetime

if TYPE_CHECKING:
    from lakeward.model.lineage.graph import Lineage
    from lakeward.model.metrics import LakeMetrics
    from lakeward.model.quality.report import Quality
    from lakeward.model.service_levels import Attainment, ServiceLevelRecord
    from lakeward.read.streams import Streams
    from lakeward.read.unpublished import Unpublished

_TABLES: Final = 100


class Measuring:
    """The part of a lake's interface for lineage, quality, metrics and service levels."""

    _context: LakeContext

    def lineage(self, *, transaction: str | None = None, file: str | None = None) -> Lineage:
        """Return which tables and columns are computed from which, over the whole lake.

        Args:
            transaction: Only what this transaction wrote, by its id.
            file: Only what comes from this file, given by its path or by the end of its path.

        Raises:
            NotFound: No commit has recorded such a file.
            InvalidInput: Both arguments are given, or the paths of several files end with `file`.
        """
        from lakeward.read.lineage import file_lineage, lake_lineage

        own = arguments.optional_text(transaction, "transaction")
        path = arguments.optional_text(file, "file")
        if path is None:
            return lake_lineage(self._context, own)
        if own is not None:
            what = "Lineage is asked for of a transaction and of a file."
            raise InvalidInput(what, hint="Give one of them.")
        return file_lineage(self._context, path)

    def quality(
        self, *, tables: Sequence[str] | None = None, measure: bool = True
    ) -> list[Quality]:
        """Measure the expectations of tables, and return the quality of each table that has some.

        Args:
            tables: Only these tables; all tables unless given.
            measure: False to return the last recorded values instead.

        Raises:
            TableNotFound: The lake has no such table.
        """
        from lakeward.maintain.quality import expectations_of

        every: Callable[[], list[Any]] = self.tables  # type: ignore[attr-defined]
        if tables is None:
            found = every()
        else:
            names = arguments.texts(tables, "tables")
            found = [self.table(name) for name in names]  # type: ignore[attr-defined]
        chosen = [t for t in found if expectations_of(self._context, t.at())]
        return [t.quality(measure=measure) for t in chosen]

    def latest_quality(self) -> list[Quality]:
        """Return the last recorded values of expectations, of each table that has some now.

        They are those of the table's newest version, from one read of the log; nothing is measured,
        and there are no series. A policy that was just set or removed counts at once.
        """
        from lakeward.maintain.quality import latest

        return latest(self._context)

    def unpublished(self) -> list[Unpublished]:
        """Return the tables with committed versions whose published files are missing."""
        from lakeward.read.unpublished import unpublished

        return unpublished(self._context)

    def metrics(
        self, *, tables: int = _TABLES, health: bool = False, process: bool = True
    ) -> LakeMetrics:
        """Return the metrics of the lake, under names that are valid in Prometheus.

        Metrics that come from the log cover all processes: tables, transactions, locks,
        publication, runs, sinks. Counters and timings cover this lake object only.

        Args:
            tables: How many tables get a label each: those with the newest commits. The other
                tables are summed up as `other`; the same holds for pipelines, writers and
                consumers.
            health: Whether to score the files of the tables that are shown, which takes longer.
            process: Whether to include the counters and timings of this lake object.
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

    def streams(self) -> Streams:
        """Return the writers of sinks, and the consumers of the lake's changes, with their lag."""
        from lakeward.read.streams import streams

        database = self._context.database
        with database.read() as session:
            return streams(session, database.clock_ms(session))

    def set_service_level(self, name: str, level: Mapping[str, Any] | None) -> None:
        """Declare what a table or a pipeline promises; None removes the promise.

        A level has `objective` (`freshness`, `query_latency`, `commit_latency`, `throughput` or
        `maintenance` of a `table`, `run_duration` or `run_success` of a `pipeline`), its limit
        (`max`, such as `1 hour`, or `min` in rows a second), `target`, the share for which it must
        be kept, 0.99 unless given, and `window`, 30 days unless given.

        Args:
            name: Unique in the lake.
            level: The promise.

        Raises:
            InvalidInput: There is no such objective, or something that it needs is missing.
            NotFound: There is no such service level to remove.
        """
        from lakeward.errors import NotFound
        from lakeward.log import service_levels
        from lakeward.model.service_levels import ServiceLevel
        from lakeward.read.timing import levels_changed

        own = arguments.text(name, "name")
        if level is not None:
            ServiceLevel.of(own, level)
        self._context.database.check_writable()
        with self._context.database.write() as session:
            if level is not None:
                body = arguments.mapping(level, own)
                service_levels.put(session, own, body, self._context.actor, now_ms())
            elif not service_levels.remove(session, own):
                what = f"There is no service level {own!r}."
                raise NotFound(what, hint="`lakeward sla` lists them.")
        levels_changed(self._context)

    def service_levels(self) -> list[ServiceLevelRecord]:
        """Return the service levels that are declared, by name."""
        from lakeward.read.service_levels import declared

        with self._context.database.read() as session:
            return declared(session)

    def sla(self) -> list[Attainment]:
        """Compute from the log how far each service level is kept over its window.

        For each service level that is not kept, listeners get an event `service_level`.
        """
        from lakeward.read.service_levels import attained
        from lakeward.read.timing import flush

        flush(self._context)
        database = self._context.database
        with database.read() as session:
            now = database.clock_ms(session)
            found = attained(session, now)
        if self._context.events.wants(event_names.SERVICE_LEVEL):
            from lakeward.model import events

            for one in found:
                if one.kept is False:
                    event = events.ServiceLevelEvent(
                        name=one.name,
                        subject=one.subject,
                        wanted=one.wanted,
                        attained=one.attained,
                        timestamp=to_datetime(now),
                    )
                    self._context.events.deliver(event_names.SERVICE_LEVEL, event)
        return found
