"""One consistent cut over all tables, pinned while it is used."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from lakeward.context import LakeContext
from lakeward.errors import (
    InvalidInput,
    LakewardError,
    OutcomeUnknown,
    StoreUnavailable,
    TableNotFound,
)
from lakeward.log import commits, heads, pins, positions, renames, retired, tags
from lakeward.log.database import Session
from lakeward.log.positions import Place
from lakeward.log.tags import LoggedTag
from lakeward.model import arguments
from lakeward.model.clock import now_ms, to_datetime, to_ms
from lakeward.model.commit import Head, new_transaction_id
from lakeward.model.names import TableName, hint_for_unknown
from lakeward.model.shown import Shown, html_table
from lakeward.read import moments
from lakeward.read import snapshot as snapshots
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.commit.publications import follow_all
from lakeward.write.transaction.registration import LeaseKeeper

if TYPE_CHECKING:
    from lakeward.read.export import Exported

_CLOSE_MS: Final = 100
_LOG: Final = logging.getLogger(__name__)


class CutTable(NamedTuple):
    """A table in a cut: its version, and when that version was committed."""

    table: str
    version: int
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class Cut:
    """The version of each table at one time; `moment` is None for the newest versions."""

    moment: datetime | None
    tables: tuple[CutTable, ...]


class LakeSnapshot(Shown):
    """All tables at one cut: every transaction is in it with all its tables, or with none.

    As a context manager it pins the versions against vacuum until the block ends. A lake that is
    open read-only pins nothing.
    """

    def __init__(
        self, context: LakeContext, keeper: LeaseKeeper, at: datetime | str | int | Place | None
    ) -> None:
        self._context = context
        self._keeper = keeper
        self._pin: str | None = None
        self._tag: LoggedTag | None = None
        self._moment: int | None = None
        self._position: int | None = None
        place: Place | None = None
        if at is not None:
            self._tag, place = _place(context, at)
            self._moment = place.timestamp_ms
        follow_all(context)
        if place is not None and self._tag is None:
            _wait_for_commits(context, place)
        with context.database.read() as session:
            if self._tag is not None:
                self._tables = _tagged(context, session, self._tag)
            elif place is not None and place.position != positions.NOWHERE:
                self._tables = _cut_after(context, session, place)
            else:
                self._tables = _cut(context, session, self._moment)
            if place is not None:
                self._position = place.position or positions.before(session, place.timestamp_ms + 1)

    def __repr__(self) -> str:
        moment = "now" if self._moment is None else f"{self.moment:%Y-%m-%d %H:%M:%S} UTC"
        if self._tag is not None:
            moment = self._tag.name
        return f"LakeSnapshot({moment!r}, versions={dict(self.versions)})"

    def _repr_html_(self) -> str:
        title = "snapshot" if self._moment is None else f"snapshot at {self.moment}"
        rows = ((t.name, t.version, t.timestamp) for t in self)
        return html_table(title, ["table", "version", "committed"], rows)

    @property
    def moment(self) -> datetime | None:
        """The time of the cut, or of the transaction in `at`; None for the newest versions."""
        return None if self._moment is None else to_datetime(self._moment)

    @property
    def position(self) -> int | None:
        """The cut's position in the order of transactions, for `lake.changes(after=…)`.

        None for a cut of the newest versions: tag that cut, or open one at a transaction.
        """
        return self._position

    @property
    def tag(self) -> str | None:
        """Name of the tag this snapshot was opened at, or None."""
        return None if self._tag is None else self._tag.name

    @property
    def versions(self) -> Mapping[str, int]:
        """The version of each table in the cut."""
        return {str(name): s.version for name, s in self._tables.items()}

    @property
    def names_now(self) -> Mapping[str, str]:
        """The name of each table now, or its last one if it was dropped, by its name in the cut."""
        return {t.name: str(t.log_head.name) for t in self}

    def table(self, name: str) -> TableSnapshot:
        """Return a table at its version in the cut.

        Raises:
            TableNotFound: The cut has no such table.
        """
        wanted = TableName.parse(name)
        found = self._tables.get(wanted)
        if found is None:
            what = f"The snapshot has no table {name}: the lake had none of this name then."
            hint = self._hint(wanted)
            raise TableNotFound(what, hint=hint, table=name)
        return found

    def only(self, tables: Iterable[str]) -> LakeSnapshot:
        """Return the same cut with some tables only: `with` pins these, and no others.

        Raises:
            TableNotFound: The cut has no such table.
        """
        found = {TableName.parse(name): self.table(name) for name in tables}
        out = copy(self)
        out._tables = dict(sorted(found.items()))
        return out

    def _hint(self, wanted: TableName) -> str | None:
        renamed = next((t for t in self if t.log_head.name == wanted), None)
        if renamed is not None:
            return f"The table that is named {wanted} now was named {renamed.name} then."
        return hint_for_unknown(wanted, self._tables) if self._tables else None

    def info(self) -> Cut:
        """Return the cut as a record."""
        return Cut(self.moment, tuple(CutTable(t.name, t.version, t.timestamp) for t in self))

    def export(
        self,
        path: str | Path,
        *,
        tables: Sequence[str] | None = None,
        format: str = "parquet",  # noqa: A002  the name users know
        max_rows_per_file: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> list[Exported]:
        """Export all tables of the cut, or some, as files that need no lake.

        Each table gets a directory of its name, with a manifest; another manifest describes the
        whole export and the cut. See `TableSnapshot.export`.

        Args:
            path: A directory that does not exist yet, or a location in an object store.
            tables: Only these tables.
            format: `parquet`, `csv`, `jsonl` or `arrow`.
            max_rows_per_file: Begin another file after so many rows.
            storage_options: Access to the object store. Without them, a store of the same kind as
                the lake's uses the lake's options; others use the environment.
            progress: Called with the number of rows of a table done, and of all its rows.

        Raises:
            AlreadyExists: There is something at the path.
            InvalidInput: The path is in the lake, or the format cannot hold a column.
            TableNotFound: The cut has no such table.
        """
        from lakeward.read.export import export_all, options_of

        wanted = None if tables is None else arguments.texts(tables, "tables")
        found = list(self) if wanted is None else [self.table(name) for name in wanted]
        options = options_of(format, (), max_rows_per_file, None, None, progress)
        cut = {"moment": self.moment, "tag": self.tag}
        return export_all(found, path, options, cut, storage_options)

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
                for snapshot in sorted(self._tables.values(), key=lambda s: s.log_head.table_id):
                    # Vacuum holds this lock while it retires versions.
                    heads.share(session, snapshot.log_head.table_id)
                    retired.check(session, snapshot.log_head, snapshot.version)
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
    ever = heads.at_moment(session, moment)
    versions = ((h, commits.version_at(session, h.table_id, moment)) for h in ever)
    return _by_name_then(context, session, versions)


def _cut_after(
    context: LakeContext, session: Session, place: Place
) -> dict[TableName, TableSnapshot]:
    """Return the tables at their versions right after a transaction."""
    ever = heads.at_position(session, place.position)
    versions = ((h, positions.version_at(session, h.table_id, place)) for h in ever)
    return _by_name_then(context, session, versions)


def _tagged(
    context: LakeContext, session: Session, tag: LoggedTag
) -> dict[TableName, TableSnapshot]:
    versions = ((heads.ever_by_id(session, i), version) for i, version in tag.versions.items())
    return _by_name_then(context, session, versions)


def _by_name_then(
    context: LakeContext, session: Session, versions: Iterable[tuple[Head, int | None]]
) -> dict[TableName, TableSnapshot]:
    """Return tables at versions, ordered by the names that they had then; None is left out.

    If two tables had one name, which happens only to adopted ones, the first is taken.
    """
    names = renames.AllNames(session)
    out: dict[TableName, TableSnapshot] = {}
    for head, version in versions:
        name = None if version is None else names.at(head, version)
        if version is not None and name is not None and name not in out:
            found = snapshots.at_version(context, session, head, version)
            out[name] = replace(found, name_then=name)
    return dict(sorted(out.items()))


def _place(
    context: LakeContext, at: datetime | str | int | Place
) -> tuple[LoggedTag | None, Place]:
    """Return the tag if `at` is the name of one, otherwise None; and the place of the cut.

    The place of a time has no position; nor has that of a tag from an old store.
    """
    if isinstance(at, Place):
        return None, at
    begun = time.perf_counter_ns()
    tag, place, kind = None, None, "timestamp"
    if isinstance(at, str):
        arguments.text(at, "at")
        with context.database.read() as session:
            tag = tags.find(session, at)
            if tag is None:
                place, kind = positions.of_transaction(session, at), "transaction"
            else:
                place, kind = Place(tag.position or positions.NOWHERE, tag.moment_ms), "tag"
    if place is None:
        try:
            place, kind = Place(positions.NOWHERE, to_ms(at)), "timestamp"
        except InvalidInput:
            if isinstance(at, str):
                raise moments.unknown(at) from None
            raise
    moments.count(context.counters, kind, begun)
    return tag, place


def _wait_for_commits(context: LakeContext, place: Place) -> None:
    """Wait until no further commit at that place, or an earlier one, can become visible.

    A commit takes its timestamp when it has locked its tables, and is visible once it is ratified.
    Without waiting for running commits, the same cut could have more of them when it is opened
    again. It does not wait for a time in the future.
    """
    if place.position != positions.NOWHERE:
        positions.wait_until_settled(context.database, place.position)
        return
    left = place.timestamp_ms - now_ms() + 1
    if 0 < left <= _CLOSE_MS:
        time.sleep(left / 1000)
    if context.database.read_only is not None:
        context.database.wait_for_writers()
        return
    with context.database.write(durable=False) as session:
        context.database.lock_schema(session)
        heads.wait_for_commits(session)
