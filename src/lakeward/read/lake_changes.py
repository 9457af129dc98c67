"""Changes of the whole lake: transactions in commit order.

Every transaction is returned once and complete, with a position. Positions increase, and a
transaction is not returned while one with a lower position may still be committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, TransactionNotFound
from lakeward.log import heads, positions, renames, tags
from lakeward.log.database import Database, Session
from lakeward.log.positions import Placed
from lakeward.model import arguments
from lakeward.model.clock import to_datetime, to_ms
from lakeward.model.names import TableName
from lakeward.model.parameters import Params, where_text
from lakeward.model.records import HIDDEN
from lakeward.read import snapshot as snapshots
from lakeward.read.readable import Readable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, repr=False)
class ChangedTable(Readable):
    """The change that one transaction made to one table; its rows are those of `table.changes`.

    Attributes:
        table: The table's name at the commit.
        name_now: The table's name now, or its last one if it was dropped.
        version: The version that the transaction made.
        operation: The operation, as in the table's history.
    """

    _internal: ClassVar = frozenset({"context", "table_id"})

    context: LakeContext = field(metadata=HIDDEN)
    table_id: int = field(metadata=HIDDEN)
    table: str
    name_now: str
    version: int
    operation: str

    def __repr__(self) -> str:
        return f"ChangedTable({self.table!r}, version={self.version}, {self.operation!r})"

    def to_reader(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
        key: str | Sequence[str] | None = None,
    ) -> pa.RecordBatchReader:
        """Return the changed rows, in the columns of the version: see `Table.changes`.

        Args:
            columns: The names of columns to return, in order; all when None.
            where: A SQL boolean expression; changed rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.
            key: Columns that identify a row, to pair old and new values.
        """
        from lakeward.read.changes import read_changes

        with self.context.database.read() as session:
            head = heads.ever_by_id(session, self.table_id)
            shown = snapshots.at_version(self.context, session, head, self.version)
        return read_changes(
            shown, self.version, columns=columns, where=where_text(where, params), key=key
        )


@dataclass(frozen=True, slots=True)
class LakeChange:
    """One committed transaction.

    Attributes:
        position: Position in the commit order of the lake; later transactions have greater ones.
        transaction_id: The transaction's id.
        timestamp: When it was committed.
        actor: Who committed it.
        message: The message of the transaction, if given.
        tables: The change of each table, by the name that it had at the commit.
    """

    position: int
    transaction_id: str
    timestamp: datetime
    actor: str
    message: str | None
    tables: Mapping[str, ChangedTable]


def lake_changes(
    context: LakeContext, after: int, tables: Sequence[TableName] | None = None
) -> Iterator[LakeChange]:
    """Yield the committed transactions after a position; only those of `tables`, if given.

    A table is one of `tables` if it has such a name, or had it at the commit.
    """
    return (change for _, change in placed_changes(context, after, tables) if change is not None)


def placed_changes(
    context: LakeContext, after: int, tables: Sequence[TableName] | None = None
) -> Iterator[tuple[int, LakeChange | None]]:
    """Yield the position of every transaction after a position, each with its changes.

    It is None for a transaction that changed none of `tables`.
    """
    wanted = None if tables is None else set(tables)
    for page in positions.pages(context.database, after):
        with context.database.read() as session:
            ids = {placed.table_id for group in page for placed in group}
            known = {i: renames.names(session, i) for i in ids}
        for group in page:
            members = [(known[p.table_id].at(p.version), known[p.table_id].now, p) for p in group]
            if wanted is not None:
                members = [m for m in members if m[0] in wanted or m[1] in wanted]
            yield group[0].position, _change(context, members) if members else None


def position_before(database: Database, since: object) -> int:
    """Return the position right before the first transaction that `since` includes.

    For a tag, that is the first transaction after it, because a tag refers to a state. If there is
    none yet, the next transaction that is committed is the first.

    Raises:
        TransactionNotFound: `since` is neither a time, nor a tag, nor a committed transaction.
    """
    if since is None:
        return positions.NOWHERE
    if isinstance(since, int) and not isinstance(since, bool):
        return arguments.whole(since, "since") - 1
    # Before commits are read: one that is running may get a time that is in the range.
    settled = positions.settled(database)
    with database.read() as session:
        place = positions.of_transaction(session, since) if isinstance(since, str) else None
        if place is not None and place.position != positions.NOWHERE:
            return place.position - 1
        tag = tags.find(session, since) if isinstance(since, str) else None
        if tag is not None and tag.position is not None:
            return tag.position
        if tag is not None:
            moment = tag.moment_ms + 1
        else:
            moment = _moment(since) if place is None else place.timestamp_ms
        return min(positions.before(session, moment), settled)


def _moment(since: object) -> int:
    """Return a time in milliseconds; raise `TransactionNotFound` if `since` is not a time."""
    try:
        return to_ms(since)  # type: ignore[arg-type]
    except InvalidInput:
        what = f"{since!r} is neither a moment, nor a tag, nor a committed transaction."
        hint = "`lakeward transactions` and `lakeward tag list` list them; moments are ISO 8601."
        raise TransactionNotFound(what, hint=hint, transaction_id=str(since)) from None


def checked_tables(session: Session, tables: Sequence[str] | None) -> list[TableName] | None:
    """Return the parsed names of tables; raise `TableNotFound` for a name that no table ever had.

    A name that a table had once is valid, also if the table was dropped or renamed since.
    """
    if tables is None:
        return None
    names = [TableName.parse(n) for n in arguments.texts(tables, "tables")]
    if any(heads.find(session, name) is None for name in names):
        ever = {name for _, name, _ in heads.ever(session)} | renames.former(session)
        for name in names:
            if name not in ever:
                raise heads.missing(session, name)
    return names


def _change(
    context: LakeContext, members: Sequence[tuple[TableName, TableName, Placed]]
) -> LakeChange:
    """Return a transaction, of its tables' names at the commit, their names now, and commits."""
    _, _, first = members[0]
    return LakeChange(
        position=first.position,
        transaction_id=first.info.transaction_id,
        timestamp=to_datetime(first.timestamp_ms),
        actor=first.info.actor,
        message=first.info.message,
        tables={
            str(then): ChangedTable(
                context, m.table_id, str(then), str(now), m.version, m.info.operation
            )
            for then, now, m in members
        },
    )
