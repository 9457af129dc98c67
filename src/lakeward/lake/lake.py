"""The class `Lake`, from which a user reaches all tables and operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lakeward.errors import LakewardError
from lakeward.formats.background import BackgroundWorker
from lakeward.lake import opening
from lakeward.lake.addresses import address_of
from lakeward.lake.following import Following
from lakeward.lake.inquiries import Inquiries
from lakeward.lake.keyed import KeyedAppends
from lakeward.lake.listening import Listening
from lakeward.lake.maintaining import Maintaining
from lakeward.lake.maintenance import LakeMaintenance
from lakeward.lake.measuring import Measuring
from lakeward.lake.members import Members
from lakeward.lake.migrating import Migrating
from lakeward.lake.pending import PendingTransactions
from lakeward.lake.policies import Policies
from lakeward.lake.querying import Querying
from lakeward.lake.revising import Revising
from lakeward.lake.tables import Tables
from lakeward.lake.tagging import Tagging
from lakeward.lake.tokens import Tokens
from lakeward.lake.trail import Trail
from lakeward.lake.transactions import Transactions
from lakeward.lake.upkeep import Upkeep
from lakeward.model.cache import Cache
from lakeward.model.closing import Closing
from lakeward.model.constraints import Constraint
from lakeward.model.locks import PATIENCE_SECONDS
from lakeward.model.shown import Shown, html_table
from lakeward.write.transaction.hooks import Hooks
from lakeward.write.transaction.registration import LeaseKeeper

if TYPE_CHECKING:
    from lakeward.lake.aio import AsyncLake
    from lakeward.model.policy.policy import Policy
    from lakeward.stream.sink import Sink, SinkGroup
    from lakeward.write.plan.retry import Retry
    from lakeward.write.transaction.lifecycle import CommitResult
    from lakeward.write.transaction.strategy import OnConflict
    from lakeward.write.transaction.transaction import Transaction

T = TypeVar("T")
_TABLES_SHOWN: Final = 100


class Lake(
    Tables,
    Inquiries,
    Listening,
    Policies,
    Following,
    Upkeep,
    Trail,
    Querying,
    LakeMaintenance,
    Maintaining,
    Measuring,
    Migrating,
    Tagging,
    Revising,
    Tokens,
    Members,
    PendingTransactions,
    KeyedAppends,
    Closing,
    Shown,
):
    """A log store plus a warehouse location. Use `lakeward.open` to get one.

    With `repair=False`, opening and closing publish no commits and roll back no transactions, so
    that the lake can be examined as it is.

    Attributes:
        hooks: Functions that are called with every commit of this object before it is ratified.
    """

    def __init__(
        self,
        target: str | Path,
        *,
        warehouse: str | Path | None = None,
        storage_options: Mapping[str, str] | None = None,
        create: bool = True,
        actor: str | None = None,
        repair: bool = True,
        merge_memory: int | None = None,
        take_over: bool = False,
        read_only: bool | None = None,
        cache: Cache | bool | None = None,
    ) -> None:
        self._context = opening.opened(
            target,
            warehouse,
            storage_options,
            create=create,
            actor=actor,
            merge_memory=merge_memory,
            take_over=take_over,
            repair=repair,
            read_only=read_only,
            cache=cache,
        )
        self._address = address_of(target, dict(storage_options or {}), self._context)
        self._keeper = LeaseKeeper(self._context.database)
        self._background = BackgroundWorker()
        self._background.compactor = self._compact_small
        self._named = {}
        self.hooks = Hooks()
        self._transactions = Transactions(self._context, self._keeper, self._background, self.hooks)
        self._repair = repair and not self.read_only
        try:
            if self._repair:
                opening.repair(self._context)
        except BaseException:
            self._context.database.close()
            raise

    def __repr__(self) -> str:
        read_only = ", read_only=True" if self.read_only else ""
        return f"Lake({self.label!r}, warehouse={self.warehouse!r}{read_only})"

    def _repr_html_(self) -> str:
        tables = self.tables()
        found = [table.at().info() for table in tables[:_TABLES_SHOWN]]
        more = len(tables) - len(found)
        title = f"Lake {self.label}" + (f", {more} more tables" if more else "")
        header = ["table", "format", "version", "rows", "bytes"]
        rows = ((t.name, t.format, t.version, t.rows, t.bytes) for t in found)
        return html_table(title, header, rows)

    @property
    def label(self) -> str:
        """The address of the lake's store for display: a path, or a URL without its password."""
        return self._context.database.label

    @property
    def read_only(self) -> bool:
        """Whether every write through this object raises `ReadOnlyLake`."""
        return self._context.database.read_only is not None

    @property
    def warehouse(self) -> str:
        """The address of the directory below which the tables' files are."""
        return self._context.storage.root

    def storage_options(self, engine: str) -> dict[str, str]:
        """Return the options with which another engine can access the lake's files.

        They may contain credentials: pass them to the engine and store them nowhere else. They are
        empty for a warehouse in a local directory.

        Args:
            engine: `delta` for delta-rs, and for Polars and others that build on it; `iceberg` for
                pyiceberg; `spark` for the settings of a session.
        """
        return self._context.storage.options_for(engine)

    def transaction(
        self,
        *,
        isolation: str = "snapshot",
        spark: Any = None,
        message: str | None = None,
        transaction_id: str | None = None,
        on_conflict: OnConflict | None = None,
        locks: Mapping[str, str] | None = None,
        lock_timeout: float = PATIENCE_SECONDS,
        properties: Mapping[str, str] | None = None,
    ) -> Transaction:
        """Begin a transaction over any number of tables.

        Args:
            isolation: `read_committed`, `snapshot` or `serializable`.
            spark: A session of Spark to read and write with; then the transaction runs Spark's SQL
                and its frames are Spark's: see `Transaction.sql`.
            message: Why; kept with the commit.
            transaction_id: An id of your choice; a second commit with the same id is recognized as
                a replay.
            on_conflict: What to do when another commit conflicts: `fail`; a `LastWriterWins`; a
                function of a `Collision` that returns `fail`, `retry`, `theirs`, `ours` or a
                `Replace`; or a mapping of table names to these, with `fail` for the other tables.
                With `spark` only `fail`: Spark's statements are not replayed on a newer version.
            locks: Tables to lock from the start, each for `read` or `write`: see
                `Transaction.lock`. They are locked in the order of their names.
            lock_timeout: How many seconds to wait for each lock, and at the commit for tables that
                others have locked.
            properties: Your own properties, recorded with each commit: see
                `Transaction.set_properties`.

        Raises:
            UnsupportedFeature: Spark does not support the isolation level or `on_conflict`.
            Locked: Another transaction had one of the tables locked until the timeout.
        """
        return self._transactions.begin(
            isolation=isolation,
            spark=spark,
            message=message,
            transaction_id=transaction_id,
            on_conflict=on_conflict,
            locks=locks,
            lock_timeout=lock_timeout,
            properties=properties,
        )

    def run(
        self,
        fn: Callable[[Transaction], T],
        *,
        retry: Retry | None = None,
        on_conflict: OnConflict | None = None,
        isolation: str = "snapshot",
        spark: Any = None,
        message: str | None = None,
        transaction_id: str | None = None,
        locks: Mapping[str, str] | None = None,
        lock_timeout: float = PATIENCE_SECONDS,
        properties: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Run `fn(transaction)` and commit; on a conflict, run it again in a new transaction.

        The `value` of the result is what `fn` returned in the run that was committed.

        Args:
            fn: Called with a new transaction each time; it should have no other effects.
            retry: How often to run `fn` again, and the pauses between; the table's policy decides
                unless given.
            on_conflict: `retry` unless given; else as in `transaction`. With `spark` only `retry`
                and `fail`.
            isolation: As in `transaction`.
            spark: As in `transaction`.
            message: Why; kept with the commit.
            transaction_id: An id of your choice: however often `run` is called with it, it commits
                once.
            locks: As in `transaction`.
            lock_timeout: As in `transaction`.
            properties: As in `transaction`.

        Raises:
            Conflict: Every attempt conflicted, or `on_conflict` does not allow another.
            Locked: Another transaction had a table locked until the timeout.
        """
        return self._transactions.run(
            fn,
            retry=retry,
            on_conflict=on_conflict,
            isolation=isolation,
            spark=spark,
            message=message,
            transaction_id=transaction_id,
            locks=locks,
            lock_timeout=lock_timeout,
            properties=properties,
        )

    def aio(self) -> AsyncLake:
        """Return the lake for an event loop: `await lake.aio().run(fn)` with an async function.

        For `async with lake.transaction()` and `table.aio()` it is not needed.
        """
        from lakeward.lake.aio import AsyncLake

        return AsyncLake(self._transactions)

    def sink(
        self,
        name: str,
        *,
        writer_id: str,
        mode: str = "append",
        key: str | Sequence[str] | None = None,
        schema: Any = None,
        format: str | None = None,  # noqa: A002  the name users know
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        policy: Policy | Mapping[str, Any] | None = None,
        constraints: Mapping[str, str | Constraint] | None = None,
        schema_mode: str | None = None,
        gaps: bool = False,
        message: str | None = None,
        flush_rows: int = 1_000_000,
        flush_bytes: int = 32 * 2**20,
        flush_seconds: float = 30.0,
        max_bytes: int = 256 * 2**20,
        threads: int = 2,
    ) -> Sink:
        """Open a table for a stream of rows, committed in epochs, each exactly once.

        Older instances of the same writer are fenced off: they can commit nothing more to the
        table.

        Args:
            name: The table.
            writer_id: Identifies the producer, the same in each run. Epochs are counted per writer.
            mode: `append` adds rows; `overwrite` replaces the partitions that an epoch has rows in;
                `upsert` merges changes by key.
            key: The columns that identify a row, for `upsert`.
            schema: As in `create`, to make the table if it does not exist. An existing table must
                have these columns.
            format: `delta` or `iceberg`, if the table is made; `delta` unless given.
            partition_by: As in `create`, if the table is made.
            properties: As in `create`, if the table is made.
            policy: As in `create`, if the table is made.
            constraints: As in `create`, if the table is made.
            schema_mode: `merge` adds columns that rows have and the table lacks, and widens types,
                in a separate commit before the epoch's. The table's policy decides unless given.
            gaps: Allow numbers of epochs to be skipped; otherwise each is one more than the last.
            message: Why; kept with each commit.
            flush_rows: Write the buffered rows as a file when there are this many.
            flush_bytes: Write them also when they have this size in memory.
            flush_seconds: Write them also when the first of them is this old.
            max_bytes: Block `write` while this many bytes are buffered.
            threads: How many threads write files.

        Raises:
            TableNotFound: There is no such table, and no schema was given to make it.
            SchemaMismatch: The table has other columns than the schema given.
            InvalidInput: An argument is wrong. Nothing was made.
        """
        from lakeward.stream.opening import opened_sink
        from lakeward.stream.queue import Limits

        given: dict[str, Any] = {} if format is None else {"format": format}
        return opened_sink(
            self._context,
            partial(self._transactions.begin, isolation="read_committed", message=message),
            partial(
                self.create,
                name,
                schema,
                partition_by=partition_by,
                properties=properties,
                policy=policy,
                constraints=constraints,
                **given,
            ),
            name,
            writer_id=writer_id,
            mode=mode,
            key=key,
            schema=schema,
            format=format,
            gaps=gaps,
            limits=Limits(flush_rows, flush_bytes, flush_seconds, max_bytes, threads),
            schema_mode=schema_mode,
        )

    def sinks(self, sinks: Sequence[Sink]) -> SinkGroup:
        """Group sinks, so that an epoch of all is committed in one transaction over their tables.

        Args:
            sinks: Sinks of `sink` without any rows yet. Tables of both formats may be mixed.
        """
        from lakeward.stream.sink import SinkGroup

        return SinkGroup(list(sinks))

    def close(self) -> None:
        """Publish ratified commits that are not published yet, and close connections.

        Waits a short time for listeners to handle queued events. A lake that is not closed loses no
        commits: the next process publishes them.
        """
        self._end_listening()
        self._context.end()
        self._background.wait()
        if self._repair:
            with suppress(LakewardError):
                self.publish()
        self._keeper.close()
        self._context.database.close()

    def _opened_aside(self, directory: Path) -> Lake:
        return Lake(directory)
