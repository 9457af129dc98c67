"""A run of a pipeline: all steps with new input, in one transaction over all tables."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Protocol

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakeward.context import LakeContext, LakeLike, context_of
from lakeward.errors import Conflict, InvalidInput, UnsupportedFeature, without_values
from lakeward.log import heads, inputs, runs
from lakeward.log.database import Session
from lakeward.model import event_names
from lakeward.model.clock import now_ms, to_datetime
from lakeward.model.definition import Definition
from lakeward.model.events import PipelineEvent
from lakeward.model.inputs import Cursor
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.pipeline import bundle, expectations, rows
from lakeward.pipeline.bundle import Progress
from lakeward.pipeline.changed import Written, changed, needs_before
from lakeward.pipeline.code import errors_of
from lakeward.pipeline.declaration import Changes, Declaration, Landing, Mode, New, Step, Whole
from lakeward.pipeline.keeping import keep_completed, keep_failed, row_of
from lakeward.pipeline.keys import Candidates
from lakeward.pipeline.landed import landed
from lakeward.pipeline.landed_text import REJECTED, REJECTED_SCHEMA
from lakeward.pipeline.plan import NewVersions, PlannedStep, plan, schema_mode_of
from lakeward.pipeline.results import RunResult, StepResult
from lakeward.write.commit.outcome import happened, outcome
from lakeward.write.spark.origins import marked
from lakeward.write.tables import create as tables
from lakeward.write.transaction.registration import checked_id
from lakeward.write.transaction.transaction import Transaction

_ATTEMPTS: Final = 5
_REJECTED_TABLE: Final[Mapping[str, Any]] = {
    "schema": REJECTED_SCHEMA,
    "partition_by": (),
    "properties": None,
    "constraints": None,
    "comment": "Rows of landing files that are not what is declared",
}


class Observer(Protocol):
    """An object that is called at the beginning and end of each step of a run."""

    def begins(self, table: str, number: int, of: int) -> None:
        """Called before a step: its table, its number from 1 on, and the number of all steps."""

    def ends(self, result: StepResult) -> None:
        """Called after a step, with its result."""


def run(
    pipeline: Declaration,
    lake: LakeLike,
    spark: Any,
    *,
    landing: str | None = None,
    observe: Observer | None = None,
    run_id: str | None = None,
) -> RunResult:
    """Run a pipeline once; see `Pipeline.run`."""
    if run_id is not None:
        before = committed(pipeline.name, context_of(lake), run_id)
        if before is not None:
            return before
    prepare(pipeline, lake)
    patience = Retrying(
        retry=retry_if_exception_type(Conflict),
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.1, max=5),
        reraise=True,
    )
    numbers = itertools.count(1)
    context, begun, since = context_of(lake), list[Progress](), time.monotonic()
    tracer = context.events.tracer
    with nullcontext() if tracer is None else tracer.run(pipeline.name) as span:

        def once() -> RunResult:
            begun.append(Progress(pipeline, attempts=next(numbers), span=span))
            return _attempt(begun[-1], lake, spark, landing, observe, run_id)

        try:
            result = patience(once)
        except BaseException as error:
            done = begun[-1].versions
            if done is None:
                what = without_values(error)
                _announce(context, begun[-1], "failed", {}, since, what)
            else:
                _announce(context, begun[-1], "ratified", done, since, None)
            raise
        state = "nothing" if result.run_id is None else "ratified"
        _announce(context, begun[-1], state, result.versions, since, None)
    return result


def committed(pipeline: str, context: LakeContext, run_id: str) -> RunResult | None:
    """Return the result of a committed run; see `Pipeline.committed`."""
    if not happened(context, checked_id(run_id)):
        return None
    with context.database.read() as session:
        found = runs.one(session, run_id)
    if found is None or found.pipeline != pipeline:
        what = f"Transaction {run_id} is committed, and it was no run of pipeline {pipeline}."
        raise InvalidInput(what, hint="Choose another run_id.", transaction_id=run_id)
    versions = outcome(context, run_id).versions
    steps = tuple(StepResult(**step) for step in found.bundle["steps"])
    seconds = (found.ended_ms - found.started_ms) / 1000
    return RunResult(pipeline, run_id, versions, steps, seconds, bundle=found.bundle)


def prepare(pipeline: Declaration, lake: LakeLike) -> list[str]:
    """Create the missing tables; return their names."""
    wanted: dict[TableName, Mapping[str, Any]] = {s.target: s.table for s in pipeline.steps()}
    for step in pipeline.steps():
        if step.rejects:
            aside = TableName.parse(f"{step.target}{REJECTED}")
            wanted[aside] = {**_REJECTED_TABLE, "format": step.table["format"]}
    with context_of(lake).database.read() as session:
        known = {name: heads.find(session, name) for name in wanted}
    for name, head in known.items():
        if head is not None and not head.guarded:
            what = (
                f"Table {name} is not guarded: its published files decide what is committed, so"
                " the input of a run cannot be recorded together with its rows."
            )
            hint = "Adopt it with guard=True, or write to it with lake.sink."
            raise UnsupportedFeature(what, hint=hint, table=str(name))
    missing = {n: t for n, t in wanted.items() if known[n] is None}
    for name, table in missing.items():
        tables.create(
            context_of(lake),
            name,
            like=None,
            if_not_exists=False,
            policy=None,
            guard=True,
            **table,
        )
    return [str(name) for name in missing]


def _attempt(
    progress: Progress,
    lake: LakeLike,
    spark: Any,
    landing: str | None,
    observe: Observer | None,
    run_id: str | None,
) -> RunResult:
    context, pipeline = context_of(lake), progress.pipeline
    found = plan(pipeline, context, landing)
    progress.planned, progress.notices = found.steps, list(found.notices)
    if not progress.planned:
        seconds = time.monotonic() - progress.began
        return RunResult(pipeline.name, None, seconds=seconds, notices=found.notices)
    reach("pipeline.planned")
    tx: Transaction = lake.transaction(
        spark=spark, message=f"pipeline {pipeline.name}", transaction_id=run_id
    )
    progress.run_id = tx.transaction_id
    engines = bundle.engines(spark)
    kept: list[Any] = []
    try:
        with tx:
            _steps(progress, tx, context, observe, kept)
            reach("pipeline.written")
            bases = dict(tx.bases)
            tx.on_ratify(lambda session: _record(session, progress, tx))
            known = bundle.known(progress, bases, engines)
            tx.on_ratify(lambda session: runs.put(session, row_of(progress, "ratified", known)))
        result = tx.commit()
    except BaseException as error:
        if not isinstance(error, Conflict) or progress.attempts == _ATTEMPTS:
            keep_failed(context, progress, engines, error)
        raise
    finally:
        for frame in kept:
            frame.unpersist()
    reach("pipeline.committed")
    row, path = keep_completed(context, progress, known, result.versions)
    return RunResult(
        pipeline.name,
        tx.transaction_id,
        result.versions,
        tuple(progress.steps),
        time.monotonic() - progress.began,
        progress.attempts,
        row.bundle,
        path,
        tuple(progress.notices),
    )


def _announce(
    context: LakeContext,
    progress: Progress,
    state: str,
    versions: Mapping[str, int],
    since: float,
    error: str | None,
) -> None:
    """Count a run that ended, end its span, and deliver `pipeline`."""
    seconds, own = time.monotonic() - since, progress.run_id or None
    context.counters.add(f"runs_{state}")
    context.counters.time("run", seconds)
    if progress.span is not None:
        progress.span.end(state, own, versions)
    event = PipelineEvent(
        progress.pipeline.name,
        own,
        state,
        MappingProxyType(dict(versions)),
        seconds,
        error,
        to_datetime(now_ms()),
    )
    context.events.deliver(event_names.PIPELINE, event)


def _steps(
    progress: Progress,
    tx: Transaction,
    context: LakeContext,
    observe: Observer | None,
    kept: list[Any],
) -> None:
    written: dict[TableName, Written] = {}
    for number, planned in enumerate(progress.planned, 1):
        step = planned.step
        if observe is not None:
            observe.begins(str(step.target), number, len(progress.planned))
        progress.at_work, progress.since = step, time.monotonic()
        recorded = tx.flows
        with errors_of(str(step.target), step.code):
            frames = {n: _frame(progress, tx, context, planned, n, written) for n in step.inputs}
            later = [p.step for p in progress.planned[number:]]
            before = tx.read(str(step.target)) if needs_before(step, later) else None
            exempt = rows.DELETE if step.mode is Mode.APPLY else "false"
            made = rows.marked(step, rows.checked(step, step.function(**frames)))
            sifted, dropped = expectations.sift(made, step.expectations, exempt)
            definition, step = _defined(context, step)
            fitting, notices = rows.fitted(step, sifted, definition)
            progress.notices += notices
            known = rows.put_once(tx, step, fitting)
            is_put = known is not None
            if known is None:
                candidates = Candidates.of(step, fitting).kept()
                kept.append(candidates.rows)
                known, notices = candidates.unique()
                progress.notices += notices
            count, warned = expectations.check(known, step.expectations, str(step.target), exempt)
            reach("pipeline.checked")
            if not is_put:
                rows.put(tx, step, known)
        written[step.target] = Written(step, known, before)
        if tx.flows[0] == recorded[0] or tx.flows[1] > recorded[1]:
            _note_sources(tx, planned)
        result = StepResult(
            str(step.target),
            step.mode.value,
            count,
            time.monotonic() - progress.since,
            dropped,
            warned,
            {f.source: len(f.files) for f in planned.files.values()},
        )
        progress.steps.append(result)
        progress.at_work = None
        if progress.span is not None:
            progress.span.step(result.table, result.seconds, result.rows)
        reach("pipeline.step")
        if observe is not None:
            observe.ends(result)


def _note_sources(tx: Transaction, planned: PlannedStep) -> None:
    """Record all tables and files of a step's inputs, if lineage of its plan is incomplete."""
    step = planned.step
    files = [found.directory.full(f) for found in planned.files.values() for f in found.files]
    tables = {str(s.table) for s in step.inputs.values() if not isinstance(s, Landing)}
    tx.sources(str(step.target), tables=sorted(tables - {str(step.target)}), files=files)


def _frame(
    progress: Progress,
    tx: Transaction,
    context: LakeContext,
    planned: PlannedStep,
    name: str,
    written: Mapping[TableName, Written],
) -> Any:
    source = planned.step.inputs[name]
    if isinstance(source, Landing):
        frame, notices = landed(tx, planned.files[name], str(planned.step.target))
        progress.notices += notices
        return frame
    # Whatever a frame is made of, its rows are those of the table.
    found, own = planned.tables.get(name), written.get(source.table)
    return marked(_table_frame(progress, tx, context, source, found, own), source.table)


def _table_frame(
    progress: Progress,
    tx: Transaction,
    context: LakeContext,
    source: New | Whole | Changes,
    found: NewVersions | None,
    own: Written | None,
) -> Any:
    table = str(source.table)
    if isinstance(source, Changes):
        frame, version = changed(tx, source, found, own)
        if found is not None:
            progress.seen[found.source] = version
        return frame
    is_first = found is not None and found.before is None and bool(found.versions)
    if isinstance(source, Whole) or (is_first and own is None):
        frame = tx.read(table)
        if found is not None:
            progress.seen[found.source] = tx.bases[table]
        return frame
    frames = [] if own is None else [rows.written(tx, own.step, own.rows)]
    if found is not None and found.versions:
        frames.append(rows.fresh(tx, context, found))
    if not frames:
        return tx.read(table).limit(0)
    out = frames[0]
    for more in frames[1:]:
        out = out.unionByName(more.select(*out.columns))
    return out


def _defined(context: LakeContext, step: Step) -> tuple[Definition, Step]:
    """Return the definition of a step's table, and the step with the table's schema mode."""
    with context.database.read() as session:
        head = heads.get(session, step.target)
        definition = context.definition(session, head)
    return definition, replace(step, schema_mode=schema_mode_of(step, head, definition))


def _record(session: Session, progress: Progress, tx: Transaction) -> None:
    """Record the processed input; raise `Conflict` if another run has processed it meanwhile."""
    consumer = progress.pipeline.name
    for planned in progress.planned:
        for found in planned.files.values():
            if not inputs.take(session, consumer, found.source, found.files, tx.transaction_id):
                raise _taken(progress, found.source)
        for table in planned.tables.values():
            version = progress.seen.get(table.source, table.head.version)
            after = Cursor(table.head.table_id, version, tx.transaction_id)
            if not inputs.move(session, consumer, table.source, table.before, after):
                raise _taken(progress, table.source)


def _taken(progress: Progress, source: str) -> Conflict:
    what = f"Another run of {progress.pipeline.name} took what is new of {source} meanwhile."
    return Conflict(what, hint="Nothing was committed. Run it again.")
