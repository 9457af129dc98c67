"""What a lake answers about itself, as records."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from lakeward.lake.snapshot import LakeSnapshot
from lakeward.model import arguments
from lakeward.model.commit import TransactionState
from lakeward.model.names import TableName
from lakeward.read.history import record, records, stats

if TYPE_CHECKING:
    from lakeward.context import LakeContext
    from lakeward.model.locks import TableLock
    from lakeward.read.history import Stats, TransactionRecord
    from lakeward.read.runs import RunRecord
    from lakeward.read.violations import ViolationRecord
    from lakeward.write.commit.outcome import Outcome
    from lakeward.write.transaction.registration import LeaseKeeper


class Inquiries:
    """The part of a lake that answers questions."""

    _context: LakeContext
    _keeper: LeaseKeeper

    def snapshot(self, *, at: datetime | str | int | None = None) -> LakeSnapshot:
        """Open one consistent cut over all tables: every transaction is in it wholly or not at all.

        Args:
            at: None for now. A tag's name: the tagged versions. A datetime, ISO 8601 text or
                milliseconds: every table at its newest version that is not newer. A transaction's
                id: the same, at the time of that transaction, which is included. Tables that were
                dropped since are included too.

        Raises:
            TransactionNotFound: `at` is no tag, no time and no committed transaction of this lake.
        """
        return LakeSnapshot(self._context, self._keeper, at)

    def outcome(self, transaction_id: str) -> Outcome:
        """What became of a transaction, by its id."""
        from lakeward.write.commit.outcome import outcome

        return outcome(self._context, arguments.text(transaction_id, "transaction_id"))

    def transactions(
        self, *, state: str | None = None, limit: int = 100
    ) -> list[TransactionRecord]:
        """The newest transactions, open ones too, newest first.

        Args:
            state: Only those that are `open`, `ratified`, `rolled_back` or `expired`.
            limit: At most so many.
        """
        limit = arguments.whole(limit, "limit")
        wanted = None if state is None else arguments.choice(state, TransactionState, "state")
        with self._context.database.read() as session:
            return records(session, limit, wanted)

    def transaction_record(self, transaction_id: str) -> TransactionRecord:
        """What the log knows of a transaction, by its id.

        Raises:
            TransactionNotFound: No transaction of that id was ever registered.
        """
        arguments.text(transaction_id, "transaction_id")
        with self._context.database.read() as session:
            return record(session, transaction_id)

    def locks(self) -> list[TableLock]:
        """Which tables are locked, by whom, and who waits for them; by name."""
        from lakeward.log import locks
        from lakeward.model.locks import table_locks

        with self._context.database.read() as session:
            now = self._context.database.clock_ms(session)
            return table_locks(locks.claims(session), now)

    def stats(self) -> Stats:
        """How much the log holds."""
        with self._context.database.read() as session:
            return stats(session)

    def counters(self) -> dict[str, int]:
        """Return counters of what this object did so far.

        `commits`; `conflicts`; how many of these were resolved (`settled`) without running a
        function again; `reruns` of functions; `failures` of transactions by other errors;
        `violations` of constraints; runs of maintenance (`jobs_done`, `jobs_failed`, …) and of
        pipelines (`runs_ratified`, `runs_failed`, `runs_nothing`) by how they ended; events that
        were dropped (`events_dropped`) and calls of listeners that raised (`events_failed`); and
        lookups of old versions: `lookups_by_version`, `lookups_by_timestamp`, `lookups_by_tag` and
        `lookups_by_transaction`, each with the microseconds that they took in all, as
        `lookups_by_version_us`. On an object store, `cache_hits` and `cache_misses` of footers and
        parts of columns, and the bytes that hits saved (`cache_hit_bytes`).
        """
        return self._context.counters.read()

    def runs(self, *, pipeline: str | None = None, limit: int = 20) -> list[RunRecord]:
        """The newest runs of pipelines, failed ones too, newest first.

        Args:
            pipeline: Only runs of this pipeline.
            limit: At most so many.
        """
        from lakeward.read import runs

        limit = arguments.whole(limit, "limit")
        with self._context.database.read() as session:
            return runs.newest(session, arguments.optional_text(pipeline, "pipeline"), limit)

    def run_record(self, run_id: str) -> RunRecord:
        """A run of a pipeline, by its id.

        Raises:
            NotFound: The log has no such run.
        """
        from lakeward.read import runs

        arguments.text(run_id, "run_id")
        with self._context.database.read() as session:
            return runs.one(session, run_id)

    def violations(self, *, table: str | None = None, limit: int = 100) -> list[ViolationRecord]:
        """The newest violations of constraints, of transactions that failed too, newest first.

        Args:
            table: Only those of this table's constraints.
            limit: At most so many.
        """
        from lakeward.read import violations

        limit = arguments.whole(limit, "limit")
        name = None if table is None else str(TableName.parse(table))
        with self._context.database.read() as session:
            return violations.newest(session, name, limit)
