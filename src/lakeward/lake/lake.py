"""The lake: where a user begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, overload

from lakeward.errors import LakewardError
from lakeward.formats.background import BackgroundWorker
from lakeward.lake import opening
from lakeward.lake.branch import Branch, branch_of, branches_of
from lakeward.lake.snapshot import LakeSnapshot
from lakeward.lake.table import Table
from lakeward.lake.transactions import Transactions
from lakeward.log import heads, locks
from lakeward.maintain import backup
from lakeward.maintain.backup import StoreCopy
from lakeward.maintain.rebuild import Rebuilt, rebuild
from lakeward.model import arguments
from lakeward.model.closing import Closing
from lakeward.model.commit import TransactionState
from lakeward.model.locks import TableLock, table_locks
from lakeward.model.names import TableName
from lakeward.read.history import Stats, TransactionRecord, record, records, stats
from lakeward.stream.opening import opened_sink
from lakeward.stream.queue import Limits
from lakeward.stream.sink import Sink, SinkGroup
from lakeward.write.commit.outcome import Outcome, outcome
from lakeward.write.commit.publish import publish_owed
from lakeward.write.plan.retry import Retry
from lakeward.write.tables import create as tables
from lakeward.write.tables.adopt import adopt
from lakeward.write.tables.clone import clone
from lakeward.write.transaction.hooks import Hooks
from lakeward.write.transaction.lifecycle import CommitResult
from lakeward.write.transaction.locking import PATIENCE_SECONDS
from lakeward.write.transaction.registration import LeaseKeeper
from lakeward.write.transaction.strategy import OnConflict
from lakeward.write.transaction.transaction import Transaction

F = TypeVar("F", bound=Callable[[Any], object])
T = TypeVar("T")


class Lake(Closing):
    """A log store plus a warehouse location. Use `lakeward.open` to get one.

    With `repair=False` nothing that an earlier process left undone is done, neither when it is
    opened nor when it is closed: for those who want to see the lake as it is.

    Attributes:
        hooks: Functions that see every commit of this object before it is ratified.
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
        )
        self._keeper = LeaseKeeper(self._context.database)
        self._background = BackgroundWorker()
        self.hooks = Hooks()
        self._transactions = Transactions(self._context, self._keeper, self._background, self.hooks)
        self._repair = repair
        try:
            if repair:
                opening.repair(self._context)
        except BaseException:
            self._context.database.close()
            raise

    def __repr__(self) -> str:
        return f"Lake({self._context.database.label!r}, warehouse={self.warehouse!r})"

    @property
    def warehouse(self) -> str:
        """Where the tables' files are."""
        return self._context.storage.root

    def storage_options(self, engine: str) -> dict[str, str]:
        """How another engine reaches the lake's files, in that engine's own words.

        What is returned may hold credentials: hand it to the engine and keep it nowhere else. On a
        warehouse in a directory it is empty.

        Args:
            engine: `delta` for delta-rs, and for Polars and others that build on it; `iceberg` for
                pyiceberg; `spark` for the settings of a session.
        """
        return self._context.storage.options_for(engine)

    def create(
        self,
        name: str,
        schema: Any,
        *,
        format: str = "delta",  # noqa: A002  the name users know
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        policy: Mapping[str, Any] | None = None,
        constraints: Mapping[str, str] | None = None,
        comment: str | None = None,
        guard: bool = True,
    ) -> Table:
        """Make an empty table.

        Args:
            name: `name` or `namespace.name`.
            schema: A `pyarrow.Schema`, a mapping of names to types, or text such as
                `id int64 not null, price decimal(10,2)`.
            format: `delta` or `iceberg`.
            partition_by: Columns whose values split the table into directories, and transforms of
                columns: `day(ts)`, `bucket(16, id)`, `truncate(4, name)`.
            properties: Table properties, as the format names them.
            policy: `target_file_size`, `compression`, `append_only`, …
            constraints: Checks by name, each a SQL boolean expression that every row must satisfy.
            comment: For people.
            guard: Keep writers out that do not go through the lake. Iceberg tables are always
                written through the lake's catalog, by whoever opens it.

        Raises:
            InvalidInput: Something asked for makes no sense, or not for this format. Nothing was
                made.
            AlreadyExists: The name is taken, or a table lies where this one would.
            MissingExtra: Iceberg tables need `lakeward[iceberg]`.
        """
        parsed = TableName.parse(name)
        tables.create(
            self._context,
            parsed,
            schema,
            format=format,
            partition_by=partition_by,
            properties=properties,
            policy=policy,
            constraints=constraints,
            comment=comment,
            guard=guard,
        )
        return Table(self._context, parsed)

    def adopt(
        self,
        name: str,
        location: str | Path,
        *,
        guard: bool = True,
        drift: str = "adopt",
        take_over: bool = False,
        format: str | None = None,  # noqa: A002  the name users know
        catalog: Mapping[str, str] | str | None = None,
    ) -> Table:
        """Take an existing Delta or Iceberg table into the lake, with its history, where it lies.

        Args:
            name: What the lake shall call it.
            location: Its directory; of an Iceberg table a metadata file, too, or with `catalog` its
                name there.
            guard: Keep other writers out of a Delta table from now on. An open table (False) takes
                part in no transaction with others.
            drift: On a table that others can write, `adopt` what they commit, or `refuse` it.
            take_over: Take a table that another lake keeps, because that lake is gone.
            format: `delta` or `iceberg`, where both lie at the location.
            catalog: The Iceberg catalog that has the table, by properties as pyiceberg takes them:
                `{"type": "sql", "uri": ...}`. It is only read, and not told. `"lakeward"` is the
                lake's own, for a table that others made there.

        Raises:
            TableNotFound: There is no table.
            AlreadyExists: The lake has it already, or another lake keeps it.
            CorruptTable: Its log or metadata cannot be understood. Nothing was changed.
            UnsupportedFeature: It has what the lake cannot read. Nothing was changed.
        """
        parsed = TableName.parse(name)
        place = arguments.place(location, "location")
        adopt(
            self._context,
            parsed,
            place,
            guard=arguments.flag(guard, "guard"),
            drift=drift,
            take_over=arguments.flag(take_over, "take_over"),
            format=arguments.optional_text(format, "format"),
            catalog=catalog,
        )
        return Table(self._context, parsed)

    def table(self, name: str) -> Table:
        """The table of this name.

        Raises:
            TableNotFound: There is none.
        """
        parsed = TableName.parse(name)
        with self._context.database.read() as session:
            heads.get(session, parsed)
        return Table(self._context, parsed)

    def tables(self) -> list[Table]:
        """All tables, by name."""
        with self._context.database.read() as session:
            return [Table(self._context, h.name) for h in heads.all_heads(session)]

    def drop(self, name: str) -> None:
        """Take a table out of the lake. Its files stay until they are vacuumed.

        Raises:
            TableNotFound: There is no such table.
            Locked: A transaction holds it.
        """
        tables.drop(self._context, TableName.parse(name))

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
    ) -> Transaction:
        """Begin a transaction over any number of tables.

        Args:
            isolation: `read_committed`, `snapshot` or `serializable`.
            spark: A session of Spark to read and write with; then it has SQL, and its frames are
                Spark's: see `Transaction.sql`.
            message: Why; kept with the commit.
            transaction_id: An id of your own choice, by which a replay is known.
            on_conflict: What to do where others were faster: `fail`; a `LastWriterWins`; a function
                of a `Collision` that answers `fail`, `retry`, `theirs`, `ours` or a `Replace`; or a
                mapping of table names to these, with `fail` for the other tables. With `spark` only
                `fail`: what Spark has done cannot be done again on a newer version.
            locks: Tables to hold from the start, each for `read` or `write`: see
                `Transaction.lock`. They are taken by the order of their names.
            lock_timeout: How many seconds to wait for each of them, and at the commit for tables
                that others hold.

        Raises:
            UnsupportedFeature: `spark` with a level or a strategy that Spark cannot keep.
            Locked: Others held one of the tables to the end.
        """
        return self._transactions.begin(
            isolation=isolation,
            spark=spark,
            message=message,
            transaction_id=transaction_id,
            on_conflict=on_conflict,
            locks=locks,
            lock_timeout=lock_timeout,
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
    ) -> CommitResult:
        """Run `fn(transaction)` and commit, again from the start when others were in the way.

        Args:
            fn: Called with a fresh transaction each time; it should have no other effects.
            retry: How often and how patiently; as the table's policy says unless given.
            on_conflict: `retry` unless given; else as in `transaction`. With `spark` only `retry`
                and `fail`.
            isolation: As in `transaction`.
            spark: As in `transaction`.
            message: Why; kept with the commit.
            transaction_id: An id of your own choice: however often this is run, it commits once.
            locks: As in `transaction`.
            lock_timeout: As in `transaction`.

        Raises:
            Conflict: It lost every time, or `on_conflict` did not want it to be run again.
            Locked: Others held a table for longer than it waited.
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
        )

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
        policy: Mapping[str, Any] | None = None,
        constraints: Mapping[str, str] | None = None,
        gaps: bool = False,
        message: str | None = None,
        flush_rows: int = 1_000_000,
        flush_bytes: int = 32 * 2**20,
        flush_seconds: float = 30.0,
        max_bytes: int = 256 * 2**20,
        threads: int = 2,
    ) -> Sink:
        """Open a table for a stream of rows, which are committed by epochs, each exactly once.

        Older instances of the same writer are fenced off from the table: they commit nothing any
        more.

        Args:
            name: The table.
            writer_id: Names the producer, the same each time it runs. Its epochs are counted by it.
            mode: `append` adds rows; `overwrite` replaces the partitions that an epoch has rows in;
                `upsert` merges changes by key.
            key: The columns that tell rows apart, for `upsert`.
            schema: To make the table when there is none, as `create` takes it. A table that is
                there must have these columns.
            format: `delta` or `iceberg`, when the table is made; `delta` unless given.
            partition_by: When the table is made.
            properties: When the table is made.
            policy: When the table is made.
            constraints: When the table is made.
            gaps: Let epochs be left out; otherwise each must be the one after the last.
            message: Why; kept with each commit.
            flush_rows: Write rows as a file when there are so many.
            flush_bytes: Or when they have this size in memory.
            flush_seconds: Or when the first has waited for so long.
            max_bytes: Let `write` wait when so much is waiting to be written.
            threads: That write files.

        Raises:
            TableNotFound: There is no such table, and no schema to make it by.
            SchemaMismatch: The table has other columns than the schema given.
            InvalidInput: Something asked for makes no sense. Nothing was made.
        """
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
        )

    def sinks(self, sinks: Sequence[Sink]) -> SinkGroup:
        """Let epochs of several sinks be committed together, over all their tables at once.

        Args:
            sinks: As `sink` opened them, not written to yet. Tables of both formats may be mixed.
        """
        return SinkGroup(list(sinks))

    def clone(
        self,
        source: str,
        name: str,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> Table:
        """Make a table of another one's files, as they are now or were: nothing is copied.

        The two then go their own ways. Files that a clone stands on are safe from any cleaning of
        the source, until the clone is dropped.

        Args:
            source: The table whose files are taken.
            name: What the new table is called.
            version: The source's version; the newest unless given.
            timestamp: A moment, instead of a version.

        Raises:
            TableNotFound: There is no such source.
            VersionNotFound: It has no such version.
            AlreadyExists: The name is taken.
            UnsupportedFeature: The source uses what a clone could not keep right.
        """
        chosen = TableName.parse(name)
        found = self.table(source).at(version=version, timestamp=timestamp)
        clone(self._context, found, chosen)
        return Table(self._context, chosen)

    def branch(self, name: str, *, tables: Sequence[str] | None = None) -> Branch:
        """A zero-copy working copy of tables, for any engine, until it is published or dropped.

        Args:
            name: What it is called.
            tables: Makes a new branch of these tables, as they are now; None for one that exists.

        Raises:
            NotFound: There is no branch of this name.
            AlreadyExists: There is one, and tables were given.
            UnsupportedFeature: One of the tables cannot be branched.
        """
        return branch_of(self._context, self._transactions.begin, name, tables)

    def branches(self) -> list[Branch]:
        """The named branches, by name."""
        return branches_of(self._context, self._transactions.begin)

    def snapshot(self, *, at: datetime | str | int | None = None) -> LakeSnapshot:
        """One consistent cut over all tables: every transaction is in it as a whole or not at all.

        Args:
            at: None for now. A datetime, ISO 8601 text or milliseconds: every table at its newest
                version that is not newer. A transaction's id: the same at that transaction's time,
                so it is in the cut itself. Tables that were dropped since are in it as well.

        Raises:
            TransactionNotFound: It is neither a moment nor a committed transaction of this lake.
        """
        return LakeSnapshot(self._context, self._keeper, at)

    def outcome(self, transaction_id: str) -> Outcome:
        """What became of a transaction, by its id."""
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
        with self._context.database.read() as session:
            now = self._context.database.clock_ms(session)
            return table_locks(locks.claims(session), now)

    def publish(self) -> dict[str, int]:
        """Publish what is owed; how many versions of each table were looked at.

        Checkpoints that commits left to the background worker are written too when this returns.

        Raises:
            ForeignCommit: Somebody else's file is in the way.
        """
        self._background.wait()
        return publish_owed(self._context)

    def backup(self, target: str | Path) -> StoreCopy:
        """Copy the store while others go on writing; a file that exists is left alone."""
        return backup.backup(self._context.database, _path(target, "target"))

    def export_store(self, target: str | Path) -> StoreCopy:
        """Export the store as a zip of Parquet files, for either database."""
        return backup.export(self._context.database, _path(target, "target"))

    def import_store(self, source: str | Path) -> StoreCopy:
        """Fill this lake's empty store from an export."""
        context = self._context
        return backup.import_into(context.database, context.storage, _path(source, "source"))

    def rebuild(self) -> Rebuilt:
        """Fill this lake's empty store from what is published in its warehouse."""
        return rebuild(self._context)

    @overload
    def on(self, event: str, fn: None = None) -> Callable[[F], F]: ...
    @overload
    def on(self, event: str, fn: F) -> F: ...
    def on(self, event: str, fn: Any = None) -> Any:
        """Call a function after each event of this lake object.

        `commit` is delivered once for every transaction that this object commits and that changed
        a table, after it is ratified and publishing was tried; the function gets a `CommitEvent`.
        Without `fn` it is a decorator: `@lake.on("commit")`.

        Functions run in the committing thread, in the order in which they were registered, before
        `commit` returns. What one of them raises is logged as a warning and changes nothing: the
        commit stands and the others are called. A function may begin transactions of its own, and
        gets their events too, after the one that it is called with.

        Args:
            event: `commit`.
            fn: Called with the event; what it returns is ignored.

        Raises:
            InvalidInput: There is no such event, or `fn` cannot be called.
        """
        if fn is None:
            return partial(self.on, event)
        self._context.events.add(event, fn)
        return fn

    def off(self, event: str, fn: Callable[[Any], object]) -> None:
        """Stop calling a function that `on` registered; one that was not is ignored."""
        self._context.events.remove(event, fn)

    def counters(self) -> dict[str, int]:
        """What happened through this object so far.

        `commits`; `conflicts` that were met; how many of them were `settled` without running a
        function again; and `reruns` of functions.
        """
        return self._context.counters.read()

    def stats(self) -> Stats:
        """How much the log holds."""
        with self._context.database.read() as session:
            return stats(session)

    def close(self) -> None:
        """Give connections back. Nothing is lost without it."""
        self._background.wait()
        if self._repair:
            with suppress(LakewardError):
                self.publish()
        self._keeper.close()
        self._context.database.close()


def _path(value: str | Path, parameter: str) -> Path:
    return Path(arguments.place(value, parameter))
