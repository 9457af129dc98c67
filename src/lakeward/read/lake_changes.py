"""Changes of the whole lake: transactions in commit order.

Every transaction comes once and complete, with a position. Positions only grow, and a transaction
is not returned while one with a lower position may still appear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, TransactionNotFound
from lakeward.log import heads, positions, tags
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
    """What one transaction did to one table; its rows are those of `table.changes`.

    Attributes:
        table: The table's present name.
        version: The version that the transaction made.
        operation: The operation, as in the table's history.
    """

    _internal: ClassVar = frozenset({"context", "table_id"})

    context: LakeContext = field(metadata=HIDDEN)
    table_id: int = field(metadata=HIDDEN)
    table: str
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
            columns: Names, in the order wanted; all when None.
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
        position: Place in the commit order of the lake; later transactions have greater ones.
        transaction_id: Its id.
        timestamp: When it was committed.
        actor: Who committed it.
        message: Why, if a message was given.
        tables: What it did to each table, by name.
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
    """Yield the committed transactions after a position; of some tables, or of all."""
    wanted = None if tables is None else set(tables)
    for page in positions.pages(context.database, after):
        with context.database.read() as session:
            ids = {placed.table_id for group in page for placed in group}
            names = {i: heads.ever_by_id(session, i).name for i in ids}
        for group in page:
            members = [p for p in group if wanted is None or names[p.table_id] in wanted]
            if members:
                yield _change(context, members, names)


def position_before(database: Database, since: object) -> int:
    """Return the position right before the first transaction that `since` names.

    For a tag: the first transaction after it, because a tag names a state. If there is none yet,
    the next one that is committed is the first.

    Raises:
        TransactionNotFound: `since` is neither a time, nor a tag, nor a committed transaction.
    """
    if since is None:
        return positions.NOWHERE
    if isinstance(since, int) and not isinstance(since, bool):
        return arguments.whole(since, "since") - 1
    # Asked before the commits are read: one that is under way may get a time that is in the range.
    settled = positions.settled(database)
    with database.read() as session:
        if isinstance(since, str):
            found = positions.of_transaction(session, since)
            if found is not None:
                return found - 1
        first = positions.since(session, _moment(session, since))
        return min(positions.last(session) if first is None else first - 1, settled)


def _moment(session: Session, since: object) -> int:
    """Return the first millisecond of a range that begins with a time, or after a tag."""
    tag = tags.find(session, since) if isinstance(since, str) else None
    if tag is not None:
        return tag.moment_ms + 1
    try:
        return to_ms(since)  # type: ignore[arg-type]
    except InvalidInput:
        what = f"{since!r} is neither a moment, nor a tag, nor a committed transaction."
        hint = "`lakeward transactions` and `lakeward tag list` list them; moments are ISO 8601."
        raise TransactionNotFound(what, hint=hint, transaction_id=str(since)) from None


def checked_tables(session: Session, tables: Sequence[str] | None) -> list[TableName] | None:
    """Return the parsed names of existing tables. Raises `TableNotFound`."""
    if tables is None:
        return None
    names = [TableName.parse(n) for n in arguments.texts(tables, "tables")]
    return [heads.get(session, name).name for name in names]


def _change(
    context: LakeContext, members: Sequence[Placed], names: Mapping[int, TableName]
) -> LakeChange:
    first = members[0]
    return LakeChange(
        position=first.position,
        transaction_id=first.info.transaction_id,
        timestamp=to_datetime(first.timestamp_ms),
        actor=first.info.actor,
        message=first.info.message,
        tables={
            str(names[m.table_id]): ChangedTable(
                context, m.table_id, str(names[m.table_id]), m.version, m.info.operation
            )
            for m in members
        },
    )
