"""The streams of a lake, from the log: writers of sinks, and consumers of the lake's changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakeward.log import consumers, heads, measures, positions
from lakeward.log.database import Session
from lakeward.model.clock import to_datetime


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """A writer of a sink, and the last epoch that it committed to a table.

    Attributes:
        table: The table.
        writer: The id of the writer.
        epoch: The last epoch that was committed.
        committed: When it was committed.
        seconds: How long ago that was.
    """

    table: str
    writer: str
    epoch: int
    committed: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class FollowerRecord:
    """A consumer or a named listener of the lake's changes, and how far it is behind.

    Attributes:
        name: The name of the consumer.
        position: The position of the last transaction that it processed.
        lag: How many positions of the log it has not processed.
        actor: Who set the position.
        moved: When the position was set.
    """

    name: str
    position: int
    lag: int
    actor: str
    moved: datetime


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams into a lake and out of it.

    Attributes:
        sinks: Writers of sinks; those with the oldest commits first.
        consumers: Consumers and named listeners; those that are furthest behind first.
    """

    sinks: tuple[SinkRecord, ...]
    consumers: tuple[FollowerRecord, ...]


def streams(session: Session, now: int) -> Streams:
    """Return the streams of a lake; `now` is the store's time in milliseconds."""
    names = {head.table_id: str(head.name) for head in heads.all_heads(session)}
    sinks = [
        SinkRecord(names[table_id], writer, epoch, to_datetime(at), max(0, now - at) / 1000)
        for table_id, writer, epoch, at in measures.writers(session)
        if table_id in names and epoch is not None and at is not None
    ]
    end = positions.last(session)
    found = [
        FollowerRecord(
            c.name, c.position, max(0, end - c.position), c.actor, to_datetime(c.moved_ms)
        )
        for c in consumers.every(session)
    ]
    return Streams(
        tuple(sorted(sinks, key=lambda one: (one.committed, one.table, one.writer))),
        tuple(sorted(found, key=lambda one: (-one.lag, one.name))),
    )
