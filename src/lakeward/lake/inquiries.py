"""The methods of a lake that read its log: transactions, locks, runs, violations, counters."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from lakeward.lake.snapshot import LakeSnapshot
from lakeward.model import arguments
from lakeward.model.clock import to_ms
from lakeward.model.commit import TransactionState
from lakeward.model.names import TableName

if TYPE_CHECKING:
    from lakeward.context import LakeContext
    from lakeward.model.locks import TableLock
    from lakeward.read.history import Stats, TransactionRecord
    from lakeward.read.recent import RecentChange
    from lakeward.read.runs import RunRecord
    from lakeward.read.violations import ViolationRecord
    from lakeward.write.commit.outcome import Outcome
    from lakeward.write.transaction.registration import LeaseKeeper

_DAY_MS: Final = 86_400_000


class Inquiries:
    """The part of a lake's interface that opens snapshots and returns records of the log."""

    _context: LakeContext
    _keeper: LeaseKeeper

    def snapshot(self, *, at: datetime | str | int | None = None) -> LakeSnapshot:
        """Open one consistent cut over all tables: every transaction is in it wholly or not at all.

        Args:
            at: None for now. A tag's name: the tagged versions. A datetime, ISO 8601 text or
                milliseconds: every table at its newest version that is not newer. A transaction's
                id: every table right after that transaction, without transactions that were
                committed later, even in the same millisecond. Tables that were dropped since are
                included too.

        Raises:
            TransactionNotFound: `at` is no tag, no time and no committed transaction of this lake.
        """
        return LakeSnapshot(self._context, self._keeper, at)

    def outcome(self, transaction_id: str) -> Outcome:
        """Return the state of a transaction, and the versions that it made.

        Raises:
            TransactionNotFound: No transaction of that id was ever registered.
        """
        from lakeward.write.commit.outcome import outcome

        return outcome(self._context, arguments.text(transaction_id, "transaction_id"))

    def transactions(
        self, *, state: str | None = None, limit: int = 100
    ) -> list[TransactionRecord]:
        """Return the newest transactions, including open ones, newest first.

        Args:
            state: Only transactions in this state: `open`, `ratified`, `rolled_back` or `expired`.
            limit: How many to return at most.
        """
        from lakeward.read.history import records

        limit = arguments.whole(limit, "limit")
        wanted = None if state is None else arguments.choice(state, TransactionState, "state")
        with self._context.database.read() as session:
            return records(session, limit, wanted)

    def recent_changes(
        self, *, since: datetime | str | None = None, limit: int = 100
    ) -> list[RecentChange]:
        """Return the newest committed transactions, newest first, with what each did to its tables.

        Each table has the version, the operation, and the numbers of changed rows. At most 1,000
        commits of tables are returned; a transaction with more tables than that has its first ones.

        Args:
            since: Only transactions committed at or after this time; the last 24 hours unless
                given.
            limit: How many transactions to return at most.
        """
        from lakeward.read.recent import recent_changes

        most = arguments.whole(limit, "limit")
        database = self._context.database
        with database.read() as session:
            now = database.clock_ms(session)
            moment = now - _DAY_MS if since is None else to_ms(since)
            return recent_changes(session, moment, most)

    def transaction_record(self, transaction_id: str) -> TransactionRecord:
        """Return the log's record of a transaction.

        Raises:
            TransactionNotFound: No transaction of that id was ever registered.
        """
        from lakeward.read.history import record

        arguments.text(transaction_id, "transaction_id")
        with self._context.database.read() as session:
            return record(session, transaction_id)

    def locks(self) -> list[TableLock]:
        """Return the locked tables, by name, each with who holds and who waits for its locks."""
        from lakeward.log import locks
        from lakeward.model.locks import table_locks

        with self._context.database.read() as session:
            now = self._context.database.clock_ms(session)
            return table_locks(locks.claims(session), now)

    def stats(self) -> Stats:
        """Return how many tables, versions and entries the log has."""
        from lakeward.read.history import stats

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
        """Return the newest runs of pipelines, including failed ones, newest first.

        Args:
            pipeline: Only runs of this pipeline.
            limit: How many to return at most.
        """
        from lakeward.read import runs

        limit = arguments.whole(limit, "limit")
        with self._context.database.read() as session:
            return runs.newest(session, arguments.optional_text(pipeline, "pipeline"), limit)

    def run_record(self, run_id: str) -> RunRecord:
        """Return the record of a run of a pipeline.

        Raises:
            NotFound: The log has no such run.
        """
        from lakeward.read import runs

        arguments.text(run_id, "run_id")
        with self._context.database.read() as session:
            return runs.one(session, run_id)

    def violations(self, *, table: str | None = None, limit: int = 100) -> list[ViolationRecord]:
        """Return the newest violations of constraints, also of failed transactions, newest first.

        Args:
            table: Only violations of this table's constraints.
            limit: How many to return at most.
        """
        from lakeward.read import violations

        limit = arguments.whole(limit, "limit")
        name = None if table is None else str(TableName.parse(table))
        with self._context.database.read() as session:
            return violations.newest(session, name, limit)
