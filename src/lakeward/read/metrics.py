"""The metrics of a lake: those in the log, of all processes, and the counters of this process.

The number of labels is limited: of tables, pipelines, writers and consumers, only the most recent
(or, of consumers, those furthest behind) have labels; all others are combined as `other`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from lakeward.context import LakeContext
from lakeward.log import consumers, heads, locks, measures, positions
from lakeward.log.database import Session
from lakeward.model.clock import to_datetime
from lakeward.model.commit import Head, TransactionState
from lakeward.model.counters import BOUNDS, Counters
from lakeward.model.metrics import OTHER, Bounded, LakeMetrics, Metric, Sample, counter, gauge
from lakeward.model.sink_counts import SinkCounts
from lakeward.read.service_levels import attained
from lakeward.read.unpublished import publication

_COUNTED: Final = {
    "commits": ("lakeward_commits", "Transactions that this process committed."),
    "conflicts": ("lakeward_conflicts", "Conflicts that transactions of this process met."),
    "settled": ("lakeward_conflicts_resolved", "Conflicts that were resolved without a rerun."),
    "reruns": ("lakeward_reruns", "Functions that lake.run ran again after a conflict."),
    "failures": ("lakeward_failures", "Transactions that an error ended, conflicts aside."),
    "violations": ("lakeward_violations_met", "Violations that transactions of this process met."),
    "events_dropped": ("lakeward_events_dropped", "Events that slow listeners did not get."),
    "events_failed": ("lakeward_events_failed", "Calls of listeners that raised."),
}


def metrics(context: LakeContext, most: int, *, process: bool) -> LakeMetrics:
    """Return the current metrics; with `process` also those of this process.

    Args:
        context: The lake.
        most: How many tables, pipelines, writers and consumers have their own labels.
        process: Whether to include the counters of this process.
    """
    with context.database.read() as session:
        now = context.database.clock_ms(session)
        newest = sorted(heads.all_heads(session), key=lambda h: (-h.timestamp_ms, h.table_id))
        found = [
            *_store(session, newest),
            *_tables(session, newest, most),
            *_transactions(session, now),
            *_locks(session, now),
            *_runs(session, now, most),
            *_streams(session, newest, most),
            *_service_levels(session, now, most),
        ]
    found += _publication(context, newest, most, now)
    if process:
        found += _process(context.counters)
        found += _own_sinks(context.cache(SinkCounts), most)
    return LakeMetrics(to_datetime(now), tuple(found))


def _store(session: Session, newest: Sequence[Head]) -> Iterator[Metric]:
    yield gauge("lakeward_store_bytes", "Size of the store.", measures.store_bytes(session))
    yield gauge("lakeward_tables", "Tables of the lake.", len(newest))
    samples = [
        Sample({"operation": name}, count)
        for name, count in sorted(measures.operations(session).items())
    ]
    yield gauge("lakeward_versions", "Versions that the log has, by operation.", samples)


def _tables(session: Session, newest: Sequence[Head], most: int) -> Iterator[Metric]:
    shown = {str(h.name) for h in newest[:most]}
    files, sizes, rows, versions = (Bounded(shown) for _ in range(4))
    last = Bounded(shown, greatest=True)
    live = measures.live_files(session)
    for head in newest:
        name = str(head.name)
        count, size, row_count = live.get(head.table_id, (0, 0, 0))
        files.add("table", name, count)
        sizes.add("table", name, size)
        rows.add("table", name, row_count)
        versions.add("table", name, head.version)
        last.add("table", name, head.timestamp_ms / 1000)
    yield gauge("lakeward_table_files", "Live data files of a table.", files.samples())
    yield gauge("lakeward_table_bytes", "Bytes of a table's live files.", sizes.samples())
    about = "Rows in a table's live files, rows that are deleted in place included."
    yield gauge("lakeward_table_rows", about, rows.samples())
    yield gauge("lakeward_table_version", "Newest version of a table.", versions.samples())
    about = "When a table was last committed to, in seconds since 1970."
    yield gauge("lakeward_table_last_commit_timestamp_seconds", about, last.samples())
    violated = Bounded(shown)
    for table, action, count in measures.violations(session):
        violated.add("table", table, count, action=action)
    about = "Rows that violated constraints of a table, by what was done."
    yield gauge("lakeward_violation_rows", about, violated.samples())


def _service_levels(session: Session, now: int, most: int) -> Iterator[Metric]:
    measured = [one for one in attained(session, now) if one.attained is not None]
    # Those that are not kept first, so that the bound hides none of them while others are shown.
    known = sorted(measured, key=lambda one: (bool(one.kept), one.name))[:most]
    for name, about, values in (
        (
            "lakeward_service_level_attainment",
            "Share of a service level that was kept over its window.",
            [one.attained for one in known],
        ),
        (
            "lakeward_service_level_target",
            "Share of a service level that must be kept.",
            [one.target for one in known],
        ),
    ):
        samples = [
            Sample({"level": one.name}, value or 0.0)
            for one, value in zip(known, values, strict=True)
        ]
        yield gauge(name, about, samples)


def _transactions(session: Session, now: int) -> Iterator[Metric]:
    states = measures.transactions(session)
    samples = [Sample({"state": s.value}, states.get(s.value, 0)) for s in TransactionState]
    yield gauge("lakeward_transactions", "Transactions that the log has, by state.", samples)
    oldest, expired = measures.open_transactions(session, now)
    age = 0.0 if oldest is None else max(0, now - oldest) / 1000
    about = "Age of the oldest open transaction; 0 without one."
    yield gauge("lakeward_oldest_open_transaction_seconds", about, age)
    about = "Open transactions whose process no longer renews the lease."
    yield gauge("lakeward_abandoned_transactions", about, expired)


def _locks(session: Session, now: int) -> Iterator[Metric]:
    claims = locks.claims(session)
    samples = [
        Sample({"mode": mode}, sum(1 for c in claims.held if c.mode.value == mode))
        for mode in ("read", "write")
    ]
    yield gauge("lakeward_locks", "Locks that transactions hold, by mode.", samples)
    yield gauge("lakeward_lock_waiters", "Transactions that wait for a lock.", len(claims.waiting))
    oldest = min([c.since_ms for c in claims.waiting], default=now)
    about = "How long the first of them has waited."
    yield gauge("lakeward_oldest_lock_wait_seconds", about, max(0, now - oldest) / 1000)


def _runs(session: Session, now: int, most: int) -> Iterator[Metric]:
    ended = sorted(measures.runs(session), key=lambda r: -(r.last_ms or 0))
    shown = set(list(dict.fromkeys(r.name for r in ended))[:most])
    count, seconds, last = Bounded(shown), Bounded(shown), Bounded(shown, greatest=True)
    for run in ended:
        count.add("pipeline", run.name, run.count, state=run.state)
        seconds.add("pipeline", run.name, run.took_ms / 1000, state=run.state)
        last.add("pipeline", run.name, (run.last_ms or 0) / 1000, state=run.state)
    about = "Runs of a pipeline that the log has, by state."
    yield gauge("lakeward_pipeline_runs", about, count.samples())
    yield gauge("lakeward_pipeline_run_seconds", "How long they took in all.", seconds.samples())
    about = "When the last of them ended, in seconds since 1970."
    yield gauge("lakeward_pipeline_last_run_timestamp_seconds", about, last.samples())
    jobs = [(j, {"kind": j.name, "state": j.state}) for j in measures.jobs(session, now)]
    samples = [Sample(labels, job.count) for job, labels in jobs]
    about = "Runs of maintenance that the log has, by kind and state."
    yield gauge("lakeward_maintenance_runs", about, samples)
    samples = [Sample(labels, job.took_ms / 1000) for job, labels in jobs]
    yield gauge("lakeward_maintenance_run_seconds", "How long they took in all.", samples)
    about = "When the last of them ended, in seconds since 1970."
    samples = [Sample(labels, j.last_ms / 1000) for j, labels in jobs if j.last_ms is not None]
    yield gauge("lakeward_maintenance_last_run_timestamp_seconds", about, samples)


def _streams(session: Session, newest: Sequence[Head], most: int) -> Iterator[Metric]:
    names = {h.table_id: str(h.name) for h in newest}
    writers = [w for w in measures.writers(session) if w[0] in names and w[2] is not None]
    writers.sort(key=lambda w: -(w[3] or 0))
    shown = {w[1] for w in writers[:most]}
    epochs, last = Bounded(shown, greatest=True), Bounded(shown, greatest=True)
    for rank, (table_id, writer, epoch, at) in enumerate(writers):
        # A writer may write to many tables, so the pairs are counted.
        table, own = (names[table_id], writer) if rank < most else (OTHER, OTHER)
        epochs.add("writer", own, epoch or 0, table=table)
        last.add("writer", own, (at or 0) / 1000, table=table)
    yield gauge("lakeward_sink_epoch", "Last epoch of a sink's writer.", epochs.samples())
    about = "When it was committed, in seconds since 1970."
    yield gauge("lakeward_sink_last_commit_timestamp_seconds", about, last.samples())
    end = positions.last(session)
    followers = consumers.every(session)
    lags = sorted(((max(0, end - c.position), c.name) for c in followers), reverse=True)
    behind = Bounded({name for _, name in lags[:most]}, greatest=True)
    for lag, name in lags:
        behind.add("consumer", name, lag)
    about = "Positions of the log that a consumer or a named listener has not processed."
    yield gauge("lakeward_consumer_lag", about, behind.samples())


def _publication(
    context: LakeContext, newest: Sequence[Head], most: int, now: int
) -> Iterator[Metric]:
    shown = {str(h.name) for h in newest[:most]}
    owed, lag = Bounded(shown), Bounded(shown, greatest=True)
    for one in publication(context, newest, now):
        owed.add("table", one.table, one.versions)
        lag.add("table", one.table, one.seconds)
    about = "Committed versions whose published files are missing."
    yield gauge("lakeward_unpublished_versions", about, owed.samples())
    about = "Age of the oldest of them; 0 where all are published."
    yield gauge("lakeward_publication_lag_seconds", about, lag.samples())


def _process(counters: Counters) -> Iterator[Metric]:
    counts = counters.read()
    for own, (name, about) in _COUNTED.items():
        yield counter(name, about, counts.get(own, 0))
    samples = []
    for step, timing in counters.timings().items():
        for bound, total in zip((*BOUNDS, "+Inf"), accumulate(timing.classes), strict=True):
            samples.append(Sample({"step": step, "le": str(bound)}, total, "_bucket"))
        samples.append(Sample({"step": step}, timing.count, "_count"))
        samples.append(Sample({"step": step}, timing.seconds, "_sum"))
    about = "How long steps of this process took: ratify, publish, commit, run, job_*."
    yield Metric("lakeward_step_seconds", "histogram", about, tuple(samples))


def _own_sinks(counts: SinkCounts, most: int) -> Iterator[Metric]:
    found = counts.read()
    shown = {writer for _, writer, _ in found[:most]}
    epochs, rows, size = (Bounded(shown) for _ in range(3))
    age = Bounded(shown, greatest=True)
    for rank, (name, writer, count) in enumerate(found):
        table, own = (name, writer) if rank < most else (OTHER, OTHER)
        epochs.add("writer", own, count.epochs, table=table)
        rows.add("writer", own, count.rows, table=table)
        size.add("writer", own, count.bytes, table=table)
        age.add("writer", own, count.uncommitted_seconds, table=table)
    about = "Epochs that sinks of this process committed."
    yield counter("lakeward_sink_epochs", about, epochs.samples())
    yield counter("lakeward_sink_rows", "Rows written in these epochs.", rows.samples())
    about = "Size in memory of the rows written in these epochs."
    yield counter("lakeward_sink_bytes", about, size.samples())
    about = "Age of the oldest rows that a sink of this process has not committed; 0 without rows."
    yield gauge("lakeward_sink_uncommitted_seconds", about, age.samples())
