"""Who writes a stream into a table: one instance of a writer at a time, and how far it came.

The epoch that was committed last is the writer's application transaction in the table's log. It is
read after the instance has taken its generation, under the same lock that a commit holds, so it is
final: whoever was committing has finished, and no older instance commits after it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import Fenced, LakewardError
from lakeward.log import commits, heads, writers
from lakeward.log.database import Session
from lakeward.model.clock import now_ms, to_datetime
from lakeward.model.commit import Head
from lakeward.stream.result import EpochResult
from lakeward.write.commit.outcome import patiently


class Replayed(LakewardError):
    """The epoch is in the log already, although this instance did not know."""


@dataclass
class Identity:
    """One instance of a writer of one table.

    Attributes:
        head: The table, as it was when the sink was opened.
        writer_id: By which the writer is known.
        instance: By which this instance is.
        generation: How many instances there were, this one included.
        last: The last epoch, if there was one.
        progress: What was recorded with it.
    """

    head: Head
    writer_id: str
    instance: str
    generation: int
    last: int | None
    progress: Any

    @classmethod
    def take(cls, context: LakeContext, head: Head, writer_id: str) -> Identity:
        """Become the instance that may commit; older ones are fenced off."""
        instance = secrets.token_hex(8)

        def once() -> Identity:
            with context.database.write() as session:
                row = writers.take(
                    session,
                    head.table_id,
                    writer_id,
                    instance=instance,
                    actor=context.actor,
                    now=now_ms(),
                )
                last = writers.last_epoch(session, head.table_id, writer_id)
                # A row that does not know the last epoch does not know what was recorded with it.
                progress = row.progress if row.epoch == last else None
                writers.align(session, head.table_id, writer_id, epoch=last, progress=progress)
            return cls(head, writer_id, instance, row.generation, last, progress)

        return patiently(context, once)

    def refresh(self, context: LakeContext) -> None:
        """Look again how far the writer came, after an accident."""
        with context.database.read() as session:
            self.last = writers.last_epoch(session, self.head.table_id, self.writer_id)

    def advance(self, session: Session, epoch: int, transaction_id: str, progress: Any) -> None:
        """Record an epoch, in the session that ratifies it.

        Raises:
            Fenced: A newer instance took over.
            Replayed: The epoch was committed before.
        """
        own = (self.head.table_id, self.writer_id)
        if writers.advance(
            session,
            *own,
            instance=self.instance,
            epoch=epoch,
            transaction_id=transaction_id,
            progress=progress,
        ):
            return
        found = writers.get(session, *own)
        if found is not None and found.instance == self.instance:
            what = f"Epoch {epoch} of writer {self.writer_id} was committed before."
            raise Replayed(what)
        raise self._fenced(found)

    def committed(self, context: LakeContext, epoch: int, rows: int) -> EpochResult:
        """The result of an epoch that was committed before."""
        table_id = self.head.table_id
        with context.database.read() as session:
            version = writers.version_of(session, table_id, self.writer_id, epoch)
            found = None if version is None else commits.one(session, table_id, version)
            head = heads.by_id(session, table_id)
        if found is None or head is None:
            return EpochResult(epoch, True, None, {}, rows)
        return EpochResult(
            epoch,
            replayed=True,
            transaction_id=found.info.transaction_id,
            versions={str(head.name): found.version},
            rows=rows,
            timestamp=to_datetime(found.timestamp_ms),
        )

    def _fenced(self, newer: writers.Writer | None) -> Fenced:
        name = str(self.head.name)
        who = "Somebody" if newer is None else newer.actor
        what = (
            f"{who} opened a newer instance of writer {self.writer_id} for {name}; this one"
            f" (generation {self.generation}) is fenced off, and committed nothing."
        )
        hint = "Let the newer one go on, or open the sink again to take over from it."
        facts = {} if newer is None else {"newer_generation": newer.generation}
        return Fenced(
            what,
            hint=hint,
            table=name,
            writer_id=self.writer_id,
            generation=self.generation,
            **facts,
        )
