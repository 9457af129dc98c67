"""The way from staged changes to published files: settle, validate, ratify, publish."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import Conflict, LakewardError, Locked, UnsupportedFeature
from lakeward.model.clock import to_datetime
from lakeward.model.commit import Isolation
from lakeward.model.events import CommitEvent
from lakeward.model.locks import LockMode
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.write.commit.background import BackgroundWorker
from lakeward.write.commit.open_table import ratify_open
from lakeward.write.commit.outcome import ratify_surely
from lakeward.write.commit.publish import checkpoint_if_due, publish_member
from lakeward.write.commit.ratify import Intent, OnRatify, ratify
from lakeward.write.commit.record import Ratified
from lakeward.write.rows.marking import stored_paths
from lakeward.write.transaction.hooks import Hooks
from lakeward.write.transaction.locking import TableLocks
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.registration import Registered
from lakeward.write.transaction.resolve import Resolver
from lakeward.write.transaction.staged import staged_commit
from lakeward.write.transaction.view import View

_LOG = logging.getLogger(__name__)
_SETTLED: Final = 100
"""How often a conflict is settled before it is taken for one that never ends."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A committed transaction.

    Attributes:
        transaction_id: By which it can be asked for ever after.
        versions: The new version of each table it changed.
        timestamp: When, the same for all its tables.
        attempts: How often it was tried.
        published: False where a table's files could not be written yet; the commit stands, and
            whoever opens the lake next writes them.
    """

    transaction_id: str
    versions: Mapping[str, int]
    timestamp: datetime | None = None
    attempts: int = 1
    published: bool = True


def commit_event(result: CommitResult, ratified: Sequence[Ratified]) -> CommitEvent:
    """The event that listeners get of a commit that changed at least one table."""
    first = ratified[0].commit
    return CommitEvent(
        transaction_id=result.transaction_id,
        versions=MappingProxyType(dict(result.versions)),
        timestamp=to_datetime(first.timestamp_ms),
        actor=first.info.actor,
        message=first.info.message,
        operations=MappingProxyType({str(m.head.name): m.commit.info.operation for m in ratified}),
        published=result.published,
    )


@dataclass(slots=True)
class Committing:
    """One transaction on its way into the log.

    Attributes:
        context: Of the lake.
        background: Does what may come after the acknowledgement.
        transaction_id: Under which it is known.
        isolation: Its level.
        message: Why.
        attempts: How often it was tried, this time included.
        lock_timeout: Seconds to wait for a table that others hold.
        view: Its tables, with what it changes.
        registered: Its row in the store.
        locks: The tables that it holds.
        resolver: Settles conflicts.
        hooks: Of the user, who may refuse it.
        along: What else is recorded in the same database transaction.
    """

    context: LakeContext
    background: BackgroundWorker
    transaction_id: str
    isolation: Isolation
    message: str | None
    attempts: int
    lock_timeout: float
    view: View
    registered: Registered
    locks: TableLocks
    resolver: Resolver
    hooks: Hooks | None
    on_ratify: list[OnRatify] = field(default_factory=list)

    def ratify(self) -> list[Ratified]:
        """Ratify, after settling what can be settled; nothing where nothing is left to commit."""
        last = self.attempts + _SETTLED
        while True:
            members = {n: m for n, m in self.view.members.items() if not m.change.is_empty}
            if not members and not self.on_ratify:
                return []
            for member in members.values():
                member.finish()
            reach("stage.done")
            self.registered.ensure()
            if self.hooks:
                self.hooks.run(staged_commit(self, self.context.actor, members))
            reach("validate.done")
            try:
                return self._ratify_once(members)
            except Conflict as error:
                self.context.counters.add("conflicts")
                if self.attempts == last or not self.resolver.settle(error):
                    raise
                self.context.counters.add("settled")
                self.attempts += 1

    def discard_unused(self, ratified: Sequence[Ratified]) -> None:
        """Delete staged files that were replaced later, or by another holder of the same id."""
        used = {
            f"{m.head.location}/{path}"
            for m in ratified
            for f in (*m.commit.added, *m.commit.change_files)
            for path in stored_paths(f)
        }
        for member in self.view.members.values():
            with suppress(LakewardError):
                member.stager.discard(keep=used)

    def publish(self, ratified: Sequence[Ratified]) -> CommitResult:
        """Write the files of what was ratified; a failure leaves them to whoever comes next."""
        published = True
        # Iceberg's hints vouch for the whole transaction, so its Delta members come first.
        for member in sorted(ratified, key=lambda m: m.head.format != "delta"):
            try:
                if member.head.guarded:
                    publish_member(self.context, member, self.background)
                else:
                    checkpoint_if_due(self.context, member, self.background)
            except LakewardError as error:
                published = False
                _LOG.warning(
                    "Version %s of %s is committed and not yet published: %s",
                    member.commit.version,
                    member.head.name,
                    error,
                )
        return CommitResult(
            self.transaction_id,
            {str(m.head.name): m.commit.version for m in ratified},
            to_datetime(ratified[0].commit.timestamp_ms) if ratified else None,
            self.attempts,
            published,
        )

    def _ratify_once(self, members: Mapping[TableName, Member]) -> list[Ratified]:
        looked = self._looked_at(members)
        touched = {**members, **looked}
        unguarded = [n for n, m in touched.items() if not m.change.head.guarded]
        if unguarded and len(touched) > 1:
            what = f"Table {unguarded[0]} is not guarded, so it cannot commit together with others."
            hint = "Adopt it with guard=True, or commit it alone."
            raise UnsupportedFeature(what, hint=hint, table=str(unguarded[0]))
        way = ratify_open if unguarded else ratify
        deadline = time.monotonic() + self.lock_timeout
        while True:
            intent = Intent(
                self.transaction_id,
                self.isolation,
                self.message,
                self.attempts,
                [m.change for m in members.values()],
                [m.change for m in looked.values()],
                # Only a serializable transaction depends on what was not there.
                self.view.missed if self.isolation is Isolation.SERIALIZABLE else (),
                self.locks.in_store,
                self.on_ratify,
                [m.stager for m in members.values()],
            )
            try:
                return ratify_surely(self.context, intent, way)
            except Locked as error:
                # In the queue it comes to its turn, however busy the table is.
                left = max(0.0, deadline - time.monotonic())
                name, mode = TableName.parse(error.table), LockMode.of(error.mode)
                self.locks.queue(name, mode, left)

    def _looked_at(self, members: Mapping[TableName, Member]) -> dict[TableName, Member]:
        """The tables that were only read, as far as that matters."""
        if self.isolation is not Isolation.SERIALIZABLE:
            return {}
        return {n: m for n, m in self.view.members.items() if n not in members and m.change.reads}
