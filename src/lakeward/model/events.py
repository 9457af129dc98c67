"""Events: frozen records of what happened in a lake, and their names.

`lakeward.model.delivery` delivers them. An event has no rows of tables in it, so that listeners may
pass it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

RATIFIED: Final = "ratified"
PUBLISHED: Final = "published"
COMMIT: Final = "commit"
CONFLICTED: Final = "conflicted"
FAILED: Final = "failed"
VIOLATION: Final = "violation"
MAINTENANCE: Final = "maintenance"
PIPELINE: Final = "pipeline"
QUALITY: Final = "quality"
SERVICE_LEVEL: Final = "service_level"
NAMES: Final = (
    *(COMMIT, RATIFIED, PUBLISHED, CONFLICTED, FAILED, VIOLATION, MAINTENANCE, PIPELINE, QUALITY),
    SERVICE_LEVEL,
)


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
        published: False where a table's own files could not be written yet. The commit stands, and
            the next process that opens the lake writes them. None where the event does not know:
            in the event `ratified`, and for listeners with a name.
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
    """Ratified versions whose files are written now.

    Attributes:
        transaction_id: The transaction that was just ratified; None for versions of other
            processes that were published later.
        versions: The newest published version of each table.
        timestamp: When.
        seconds: The time from ratification until then; None for versions of other processes.
    """

    transaction_id: str | None
    versions: Mapping[str, int]
    timestamp: datetime
    seconds: float | None


@dataclass(frozen=True, slots=True)
class ConflictEvent:
    """A transaction that met a conflicting commit of another one.

    Attributes:
        transaction_id: The transaction's id.
        table: The table in which the conflict is, if it is in one.
        attempt: Which attempt to commit it was, from 1.
        resolved: Whether the transaction goes on; False where it was rolled back. `lake.run` may
            run its function again in a new transaction.
        reason: What the error says.
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
        reason: What the error says.
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
        count: How many rows.
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
        run_id: The run's id, which is that of its transaction; None where nothing was new, or where
            it failed before it began a transaction.
        state: `ratified`, `failed`, or `nothing` where there was no new input.
        versions: The new version of each table.
        seconds: How long the run took.
        error: The error's class and text, where it failed.
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
        expectation: Its name.
        wanted: What is expected, in words.
        value: What was measured.
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
        wanted: What is promised, in words.
        attained: The share that was kept.
        timestamp: When it was looked at.
    """

    name: str
    subject: str
    wanted: str
    attained: float | None
    timestamp: datetime
