"""One epoch on its way into its tables: which get it, what it does to them, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import EpochOutOfOrder, UnsupportedFeature
from lakeward.log.database import Session
from lakeward.model import arguments
from lakeward.stream.epoch import Epoch
from lakeward.stream.inlet import Inlet
from lakeward.stream.result import EpochResult
from lakeward.write.transaction.committing import CommitResult


@dataclass(eq=False)
class Attempt:
    """An epoch that was sealed.

    Attributes:
        number: Of the epoch.
        epoch: Its transaction.
        rows: How many were written.
        progress: To be recorded with it.
        inlets: The tables that get it.
    """

    number: int
    epoch: Epoch
    rows: int
    progress: Any
    inlets: list[Inlet] = field(default_factory=list)

    def compose(self, missing: Sequence[Inlet]) -> None:
        """Add to the transaction what the epoch does to tables, its number, and the fence."""
        transaction = self.epoch.transaction
        self.inlets.extend(missing)
        for inlet in missing:
            inlet.settle(self.epoch)
            transaction.record(inlet.name, inlet.identity.writer_id, self.number)
        # In one order, whoever commits: they lock rows.
        ordered = sorted(missing, key=lambda i: i.identity.head.table_id)

        def record(session: Session) -> None:
            for inlet in ordered:
                inlet.identity.advance(
                    session, self.number, transaction.transaction_id, self.progress
                )

        transaction.on_ratify(record)

    def committed(self, done: CommitResult) -> EpochResult:
        """The result, once its transaction was committed."""
        for inlet in self.inlets:
            inlet.identity.last = self.number
            inlet.identity.progress = self.progress
        return EpochResult(
            self.number,
            replayed=False,
            transaction_id=done.transaction_id,
            versions=done.versions,
            rows=self.rows,
            timestamp=done.timestamp,
            published=done.published,
        )


def wanted(inlets: Sequence[Inlet], number: int, *, gaps: bool) -> list[Inlet]:
    """The tables that do not have an epoch yet.

    Raises:
        EpochOutOfOrder: One of them would miss an epoch.
    """
    found = []
    for inlet in inlets:
        last = inlet.identity.last
        if last is not None and number <= last:
            continue
        if last is not None and number > last + 1 and not gaps:
            what = f"Epoch {number} does not follow epoch {last}, the last one of {inlet.name}."
            hint = f"Commit epoch {last + 1} first, or open the sink with gaps=True."
            raise EpochOutOfOrder(
                what,
                hint=hint,
                table=inlet.name,
                writer_id=inlet.identity.writer_id,
                epoch=number,
                last=last,
                expected=last + 1,
            )
        found.append(inlet)
    return found


def check_progress(inlets: Sequence[Inlet], progress: Any) -> None:
    """Pass when this can be recorded with an epoch.

    Raises:
        InvalidInput: It is no mapping.
        UnsupportedFeature: A table is not guarded, so nothing is recorded with its epochs.
    """
    if progress is None:
        return
    open_tables = [i.name for i in inlets if not i.identity.head.guarded]
    if open_tables:
        what = f"Table {open_tables[0]} is not guarded, so nothing is recorded with its epochs."
        raise UnsupportedFeature(what, hint="Adopt it with guard=True.", table=open_tables[0])
    arguments.mapping(progress, "progress")


def replayed(context: LakeContext, inlets: Sequence[Inlet], attempt: Attempt) -> EpochResult:
    """The result of an epoch that all the tables had before."""
    found = [i.identity.committed(context, attempt.number, attempt.rows) for i in inlets]
    versions = {name: v for result in found for name, v in result.versions.items()}
    return EpochResult(
        attempt.number,
        replayed=True,
        transaction_id=found[0].transaction_id,
        versions=versions,
        rows=attempt.rows,
        timestamp=found[0].timestamp,
    )
