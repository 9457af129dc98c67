"""One consistent cut over all tables, pinned while it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Self

from lakeward.errors import InvalidInput, TableNotFound, TransactionNotFound
from lakeward.log import commits, heads, pins
from lakeward.log.database import Session
from lakeward.model.clock import to_ms
from lakeward.model.commit import Head, new_transaction_id
from lakeward.model.names import TableName
from lakeward.read import snapshot as snapshots
from lakeward.read.parts import Parts
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.drift import follow_all
from lakeward.write.lease import LeaseKeeper


class LakeSnapshot:
    """All tables at one cut: every transaction is in it with all its tables, or with none.

    As a context manager it pins the versions against vacuum until the block ends.
    """

    def __init__(self, parts: Parts, keeper: LeaseKeeper, at: datetime | str | int | None) -> None:
        self._parts = parts
        self._keeper = keeper
        self._pin: str | None = None
        follow_all(parts)
        with parts.database.read() as session:
            self._tables = _cut(parts, session, at)

    @property
    def versions(self) -> Mapping[str, int]:
        """The version of each table in the cut."""
        return {str(name): s.version for name, s in self._tables.items()}

    def table(self, name: str) -> TableSnapshot:
        """A table in the cut.

        Raises:
            TableNotFound: The lake has, or had then, no such table.
        """
        found = self._tables.get(TableName.parse(name))
        if found is None:
            what = f"The snapshot has no table {name}."
            raise TableNotFound(what, hint="It did not exist at that time.", table=name)
        return found

    def __iter__(self) -> Iterator[TableSnapshot]:
        return iter(self._tables.values())

    def __enter__(self) -> Self:
        self._pin = new_transaction_id()
        versions = {s.head.table_id: s.version for s in self._tables.values()}
        database = self._parts.database
        with database.write() as session:
            pins.insert(
                session,
                database.clock_ms(session),
                pin_id=self._pin,
                actor=self._parts.actor,
                versions=versions,
            )
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
        self._keeper.let_go(self._pin)
        with self._parts.database.write() as session:
            pins.release(session, self._pin)
        self._pin = None


def _cut(
    parts: Parts, session: Session, at: datetime | str | int | None
) -> dict[TableName, TableSnapshot]:
    current = heads.all_heads(session)
    if at is None:
        return {h.name: snapshots.latest(parts, session, h) for h in current}
    moment = _moment(session, at)
    out: dict[TableName, TableSnapshot] = {}
    for head in current:
        found = _at(parts, session, head, moment)
        if found is not None:
            out[head.name] = found
    return out


def _at(parts: Parts, session: Session, head: Head, moment: int) -> TableSnapshot | None:
    version = commits.version_at(session, head.table_id, moment)
    return None if version is None else snapshots.at_version(parts, session, head, version)


def _moment(session: Session, at: datetime | str | int) -> int:
    """A time, or the time of a transaction given by its id."""
    if isinstance(at, str):
        members = commits.members(session, at)
        if members:
            _, table_id, version = members[0]
            found = commits.one(session, table_id, version)
            if found is not None:
                return found.timestamp_ms
        try:
            return to_ms(at)
        except InvalidInput:
            what = f"{at!r} is neither a moment nor a transaction of this lake."
            raise TransactionNotFound(what, transaction_id=at) from None
    return to_ms(at)
