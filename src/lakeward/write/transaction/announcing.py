"""Counts, timings and events of a transaction, announced as its steps are done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType

from lakeward.context import LakeContext
from lakeward.errors import Conflict, without_values
from lakeward.formats.base import Ratified
from lakeward.log.violations import Violation
from lakeward.model import event_names
from lakeward.model.clock import now_ms, to_datetime
from lakeward.model.events import (
    CommitEvent,
    ConflictEvent,
    FailedEvent,
    PublishedEvent,
    ViolationEvent,
)
from lakeward.model.names import TableName
from lakeward.write.transaction.result import CommitResult


def ratified(context: LakeContext, members: Sequence[Ratified], seconds: float) -> None:
    """Count a ratified transaction, and deliver `ratified` if it changed a table."""
    context.counters.add("commits")
    context.counters.time("ratify", seconds)
    if context.events.tracer is not None and members:
        own = members[0].commit.info.transaction_id
        context.events.tracer.step(own, "ratify", seconds)
    if members and context.events.wants(event_names.RATIFIED):
        context.events.deliver(event_names.RATIFIED, _commit_event(members, published=None))


def published(
    context: LakeContext, transaction_id: str, members: Sequence[Ratified], seconds: float
) -> None:
    """Count how long publishing took, and deliver `published` for the tables where it succeeded."""
    if not members:
        return
    context.counters.time("publish", seconds)
    if context.events.tracer is not None:
        context.events.tracer.step(transaction_id, "publish", seconds)
    if context.events.wants(event_names.PUBLISHED):
        event = PublishedEvent(
            transaction_id=transaction_id,
            versions=_versions(members),
            timestamp=to_datetime(now_ms()),
            seconds=seconds,
        )
        context.events.deliver(event_names.PUBLISHED, event)


def committed(
    context: LakeContext, result: CommitResult, members: Sequence[Ratified], seconds: float
) -> None:
    """Count how long the commit took, and deliver `commit` if it changed a table."""
    context.counters.time("commit", seconds)
    if context.events.tracer is not None:
        facts = {"versions": _versions(members), "attempts": result.attempts}
        operations = {str(m.head.name): m.commit.info.operation for m in members}
        own = result.transaction_id
        context.events.tracer.end(own, "ratified", None, operations=operations, **facts)
    if members and context.events.wants(event_names.COMMIT):
        context.events.committed(_commit_event(members, published=result.published))


def conflicted(
    context: LakeContext, transaction_id: str, error: Conflict, attempt: int, *, resolved: bool
) -> None:
    """Count a conflict, and deliver `conflicted`."""
    context.counters.add("conflicts")
    if context.events.tracer is not None:
        facts = {"table": error.facts.get("table"), "attempt": attempt, "resolved": resolved}
        context.events.tracer.note(transaction_id, "conflict", **facts)
    if resolved:
        context.counters.add("settled")
    if context.events.wants(event_names.CONFLICTED):
        event = ConflictEvent(
            transaction_id=transaction_id,
            table=error.facts.get("table"),
            attempt=attempt,
            resolved=resolved,
            reason=without_values(error),
            timestamp=to_datetime(now_ms()),
        )
        context.events.deliver(event_names.CONFLICTED, event)


def failed(
    context: LakeContext, transaction_id: str, tables: Iterable[TableName], error: BaseException
) -> None:
    """Count a transaction that an error ended, and deliver `failed`; conflicts are no failures."""
    if isinstance(error, Conflict):
        return
    context.counters.add("failures")
    if context.events.wants(event_names.FAILED):
        event = FailedEvent(
            transaction_id=transaction_id,
            tables=tuple(sorted(map(str, tables))),
            error=type(error).__name__,
            reason=without_values(error),
            timestamp=to_datetime(now_ms()),
        )
        context.events.deliver(event_names.FAILED, event)


def violated(context: LakeContext, found: Iterable[Violation]) -> None:
    """Count violations that are recorded, and deliver `violation` for each."""
    for one in found:
        context.counters.add("violations")
        if context.events.wants(event_names.VIOLATION):
            event = ViolationEvent(
                transaction_id=one.transaction_id,
                table=one.table,
                constraint=one.constraint,
                count=one.count,
                action=str(one.action),
                timestamp=to_datetime(now_ms()),
            )
            context.events.deliver(event_names.VIOLATION, event)


def _commit_event(members: Sequence[Ratified], *, published: bool | None) -> CommitEvent:
    first = members[0].commit
    return CommitEvent(
        transaction_id=first.info.transaction_id,
        versions=_versions(members),
        timestamp=to_datetime(first.timestamp_ms),
        actor=first.info.actor,
        message=first.info.message,
        operations=MappingProxyType({str(m.head.name): m.commit.info.operation for m in members}),
        published=published,
    )


def _versions(members: Sequence[Ratified]) -> MappingProxyType[str, int]:
    return MappingProxyType({str(m.head.name): m.commit.version for m in members})
