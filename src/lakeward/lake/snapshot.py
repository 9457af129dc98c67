"""One consistent cut over all tables, pinned while it is used."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Final, NamedTuple, Self

from lakeward.context import LakeContext
from lakeward.errors import (
    InvalidInput,
    LakewardError,
    OutcomeUnknown,
    StoreUnavailable,
    TableNotFound,
    TransactionNotFound,
)
from lakeward.log import commits, heads, pins
from lakeward.log.database import Session
from lakeward.model.clock import now_ms, to_datetime, to_ms
from lakeward.model.commit import new_transaction_id
from lakeward.model.names import TableName, hint_for_unknown
from lakeward.model.shown import Shown, html_table
from lakeward.read import snapshot as snapshots
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.commit.publications import follow_all
from lakeward.write.transaction.registration import LeaseKeeper

_CLOSE_MS: Final = 100
_LOG: Final = logging.getLogger(__name__)


class CutTable(NamedTuple):
    """A table in a cut: its version, and when that was committed."""

    table: str
    version: int
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class Cut:
    """The version of each table at one moment; None for now."""

    moment: datetime | None
    tables: tuple[CutTable, ...]


class LakeSnapshot(Shown):
    """All tables at one cut: every transaction is in it with all its tables, or with none.

    As a context manager it pins the versions against vacuum until the block ends. A lake that is
    open read-only pins nothing.
    """

    def __init__(
        self, context: LakeContext, keeper: LeaseKeeper, at: datetime | str | int | None
    ) -> None:
        self._context = context
        self._keeper = keeper
        self._pin: str | None = None
        self._moment = None if at is None else _moment(context, at)
        follow_all(context)
        if self._moment is not None:
            _wait_for_commits(context, self._moment)
        with context.database.read() as session:
            self._tables = _cut(context, session, self._moment)

    def __repr__(self) -> str:
        moment = "now" if self._moment is None else f"{self.moment:%Y-%m-%d %H:%M:%S} UTC"
        return f"LakeSnapshot({moment!r}, versions={dict(self.versions)})"

    def _repr_html_(self) -> str:
        title = "snapshot" if self._moment is None else f"snapshot at {self.moment}"
        rows = ((t.name, t.version, t.timestamp) for t in self)
        return html_table(title, ["table", "version", "committed"], rows)

    @property
    def moment(self) -> datetime | None:
        """The time of the cut, or of the transaction it was asked for by; None for now."""
        return None if self._moment is None else to_datetime(self._moment)

    @property
    def versions(self) -> Mapping[str, int]:
        """The version of each table in the cut."""
        return {str(name): s.version for name, s in self._tables.items()}

    def table(self, name: str) -> TableSnapshot:
        """A table in the cut.

        Raises:
            TableNotFound: The lake has, or had then, no such table.
        """
        wanted = TableName.parse(name)
        found = self._tables.get(wanted)
        if found is None:
            what = f"The snapshot has no table {name}: the lake had none of this name then."
            hint = hint_for_unknown(wanted, self._tables) if self._tables else None
            raise TableNotFound(what, hint=hint, table=name)
        return found

    def info(self) -> Cut:
        """The cut as a record."""
        return Cut(self.moment, tuple(CutTable(t.name, t.version, t.timestamp) for t in self))

    def __iter__(self) -> Iterator[TableSnapshot]:
        return iter(self._tables.values())

    def __enter__(self) -> Self:
        if self._context.database.read_only is not None:
            return self
        self._pin = new_transaction_id()
        versions = {s.log_head.table_id: s.version for s in self._tables.values()}
        database = self._context.database
        try:
            with database.write() as session:
                pins.insert(
                    session,
                    database.clock_ms(session),
                    pin_id=self._pin,
                    actor=self._context.actor,
                    versions=versions,
                )
        except OutcomeUnknown as error:
            # A pin that was made after all ends with its lease.
            what = f"The snapshot could not be pinned: {error.what}"
            raise StoreUnavailable(what, hint="Take it again.") from error
        self._keeper.hold_pin(self._pin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pin is None:
            return
        pin, self._pin = self._pin, None
        self._keeper.let_go(pin)
        try:
            with self._context.database.write() as session:
                pins.release(session, pin)
        except LakewardError as failure:
            # The rows were read; the pin ends with its lease.
            _LOG.warning("Pin %s is not released and ends with its lease: %s", pin, failure)


def _cut(
    context: LakeContext, session: Session, moment: int | None
) -> dict[TableName, TableSnapshot]:
    if moment is None:
        found = heads.all_heads(session)
        return {h.name: snapshots.latest(context, session, h) for h in found}
    out: dict[TableName, TableSnapshot] = {}
    for head in heads.at_moment(session, moment):
        version = commits.version_at(session, head.table_id, moment)
        if version is not None and head.name not in out:
            out[head.name] = snapshots.at_version(context, session, head, version)
    return out


def _moment(context: LakeContext, at: datetime | str | int) -> int:
    """A time, or the time of a transaction given by its id."""
    if not isinstance(at, str):
        return to_ms(at)
    with context.database.read() as session:
        members = commits.members(session, at)
        if members:
            _, table_id, version = members[0]
            found = commits.one(session, table_id, version)
            if found is not None:
                return found.timestamp_ms
    try:
        return to_ms(at)
    except InvalidInput:
        what = f"{at!r} is neither a moment nor a committed transaction of this lake."
        hint = "`lakeward transactions` lists the newest; moments are ISO 8601."
        raise TransactionNotFound(what, hint=hint, transaction_id=at) from None


def _wait_for_commits(context: LakeContext, moment: int) -> None:
    """Wait until no commit of that moment or an earlier one can still appear.

    A commit takes its timestamp when it has locked its tables, and is visible once it is ratified.
    Without waiting for commits under way, the same cut could hold more when it is read again. A
    moment in the future is not waited for.
    """
    left = moment - now_ms() + 1
    if 0 < left <= _CLOSE_MS:
        time.sleep(left / 1000)
    if context.database.read_only is not None:
        context.database.wait_for_writers()
        return
    with context.database.write(durable=False) as session:
        context.database.lock_schema(session)
        heads.wait_for_commits(session)
