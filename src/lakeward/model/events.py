"""Events: frozen records of what happened in a lake.

`lakeward.model.event_names` has their names, and `lakeward.model.delivery` delivers them. An event
has no rows of tables in it, so that listeners may pass it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CommitEvent:
    """A transaction that was committed.

    Attributes:
        transaction_id: The transaction's id.
        versions: The new version of each table that it changed.
        timestamp: When it was committed, the same for all its tables.
        actor: Who committed.
        message: Why, as the transaction was given it.
        operations: What it did to each table: `WRITE`, `DELETE`, `MERGE`, …
        published: False if the published files of a table could not be written yet. The commit is
            valid, and the next process that opens the lake publishes it. None if it is not known:
            in the event `ratified`, and for named listeners.
    """

    transaction_id: str
    versions: Mapping[str, int]
    timestamp: datetime
    actor: str
    message: str | None
    operations: Mapping[str, str]
    published: bool | None


@dataclass(frozen=True, slots=True)
class PublishedEvent:
    """Ratified versions whose published files have been written.

    Attributes:
        transaction_id: The transaction that was just ratified; None for versions of other
            processes that were published later.
        versions: The newest published version of each table.
        timestamp: When they were published.
        seconds: The time from ratification to publication; None for versions of other processes.
    """

    transaction_id: str | None
    versions: Mapping[str, int]
    timestamp: datetime
    seconds: float | None


@dataclass(frozen=True, slots=True)
class ConflictEvent:
    """A conflict of a transaction with the commit of another transaction.

    Attributes:
        transaction_id: The transaction's id.
        table: The table in which the conflict is, if it is in one.
        attempt: The number of the attempt to commit, from 1 on.
        resolved: Whether the transaction continues; False if it was rolled back. `lake.run` may
            run its function again in a new transaction.
        reason: The message of the error.
        timestamp: When.
    """

    transaction_id: str
    table: str | None
    attempt: int
    resolved: bool
    reason: str
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class FailedEvent:
    """A transaction that was rolled back because of an error that is no conflict.

    Attributes:
        transaction_id: The transaction's id.
        tables: The tables that it touched.
        error: The name of the error's class.
        reason: The message of the error; if it can contain values of rows, only what it is about.
        timestamp: When.
    """

    transaction_id: str
    tables: tuple[str, ...]
    error: str
    reason: str
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class ViolationEvent:
    """Rows of a transaction that violated a constraint.

    Attributes:
        transaction_id: The transaction's id.
        table: The table.
        constraint: The constraint's name.
        count: How many rows violated it.
        action: What was done: `fail`, `quarantine` or `warn`.
        timestamp: When.
    """

    transaction_id: str
    table: str
    constraint: str
    count: int
    action: str
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class PipelineEvent:
    """A run of a pipeline that ended.

    Attributes:
        pipeline: The pipeline's name.
        run_id: The run's id, which is that of its transaction; None if there was no new input, or
            if the run failed before it began a transaction.
        state: `ratified`, `failed`, or `nothing` if there was no new input.
        versions: The new version of each table.
        seconds: How long the run took.
        error: What the error says without values of rows, if the run failed.
        timestamp: When it ended.
    """

    pipeline: str
    run_id: str | None
    state: str
    versions: Mapping[str, int]
    seconds: float
    error: str | None
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class QualityEvent:
    """An expectation of a table that is not met.

    Attributes:
        table: The table.
        version: The version that was measured.
        expectation: The name of the expectation.
        wanted: The expectation in words.
        value: The measured value.
        timestamp: When.
    """

    table: str
    version: int
    expectation: str
    wanted: str
    value: float | None
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class ServiceLevelEvent:
    """A service level that is not kept.

    Attributes:
        name: The service level.
        subject: The table or the pipeline.
        wanted: The promise in words.
        attained: The share for which the promise was kept.
        timestamp: When the service level was computed.
    """

    name: str
    subject: str
    wanted: str
    attained: float | None
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """A query or a read of a table that has ended: its last row was read.

    Attributes:
        versions: The version of each table that was read.
        how: `sql` for queries, `rows` for reads of a table.
        rows: How many rows were returned.
        seconds: The time until the last row was read.
        actor: Who read.
        timestamp: When it ended.
    """

    versions: Mapping[str, int]
    how: str
    rows: int
    seconds: float
    actor: str
    timestamp: datetime
