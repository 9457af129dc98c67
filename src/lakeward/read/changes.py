"""Streams the rows that the commits of a range of versions changed.

Commits come in the order of their versions, in the columns of the last version of the range. Each
row has its kind of change and the commit that changed it. Small commits are read ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Final

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, VersionNotFound
from lakeward.formats.delta.changes import CHANGE_TYPE, INSERTED
from lakeward.log import commits, tags
from lakeward.log.commits import LoggedCommit
from lakeward.log.database import Session
from lakeward.model import arguments
from lakeward.model.clock import to_datetime, to_ms
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE
from lakeward.model.parameters import Params
from lakeward.read.ahead import in_order
from lakeward.read.auditing import audit_read
from lakeward.read.change_rows import ChangeReader
from lakeward.read.changed_files import ChangedFiles, Definitions, changed_files
from lakeward.read.moments import no_point, unknown, version_of_tag
from lakeward.read.past_columns import optional
from lakeward.read.scan import check_columns
from lakeward.read.snapshot import TableSnapshot
from lakeward.read.widest import in_widest_types

COMMIT_VERSION: Final = "_commit_version"
COMMIT_TIMESTAMP: Final = "_commit_timestamp"
TRANSACTION_ID: Final = "_transaction_id"
_ADDED: Final = (
    pa.field(CHANGE_TYPE, pa.string(), nullable=False),
    pa.field(COMMIT_VERSION, pa.int64(), nullable=False),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", "UTC"), nullable=False),
    pa.field(TRANSACTION_ID, pa.string(), nullable=False),
)
CHANGE_COLUMNS: Final = tuple(f.name for f in _ADDED)
_PAGE: Final = 32
_PIECE_BYTES: Final = 2**20
_MADE_ROWS: Final = 131_072
Point = int | str | datetime
"""A version, a time or a transaction's id."""


def read_changes(
    until: TableSnapshot,
    since: int,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    params: Params | None = None,
    key: str | Sequence[str] | None = None,
    skip: AbstractSet[int] = frozenset(),
    last: int | None = None,
) -> pa.RecordBatchReader:
    """Return the changes of the versions from `since` to `last`, both included.

    Rows have the columns of the snapshot, each in the widest type that it has in these versions and
    the one before; the snapshot's version is the last one if `last` is None. Versions in `skip` are
    left out.

    Raises:
        InvalidInput: A column does not exist, or has the name of one of the added columns.
        UnsupportedFeature: The types of a column in the range have no common one.
    """
    until = in_widest_types(until, since, last)
    names, keys = checked_names(until, columns, key)
    audit_read(until.context, until.log_head, until.version, "changes", columns=columns)
    reader = ChangeReader(
        until.context,
        until.log_head,
        until.definition,
        # A batch without columns has no number of rows.
        columns=names or until.schema.names[:1],
        where=until.parsed(where, params),
        key=keys,
    )
    schema = schema_of(until, names, None)

    def batches(group: list[ChangedFiles]) -> Iterator[pa.RecordBatch]:
        if len(group) > 1:
            marks = _Marks(group[0].commit, schema)
            for found, rows in reader.inserted(group):
                if found.commit is not marks.commit:
                    marks = _Marks(found.commit, schema)
                for batch in rows.to_batches():
                    yield marks.added(batch, INSERTED)
            return
        (found,) = group
        marks = _Marks(found.commit, schema)
        for kind, rows in reader.rows(found):
            for batch in rows.to_batches():
                yield marks.added(batch, kind)

    def piece(groups: list[list[ChangedFiles]]) -> Iterator[pa.RecordBatch]:
        for group in groups:
            yield from batches(group)

    def ahead() -> Iterator[pa.RecordBatch]:
        high = until.version if last is None else last
        found = _found(until.context, until.log_head, since, high, until.definition)
        wanted = (f for f in found if f.commit.version not in skip) if skip else found
        yield from in_order(_pieces(_groups(wanted, reader)), piece, _piece_bytes)

    return pa.RecordBatchReader.from_batches(schema, ahead())


def schema_of(
    shown: TableSnapshot, columns: Sequence[str] | None, key: str | Sequence[str] | None
) -> pa.Schema:
    """Return the schema of changes; raise `InvalidInput` as `checked_names` does."""
    names, _ = checked_names(shown, columns, key)
    arrow = optional(shown.schema.to_arrow())
    return pa.schema([*(arrow.field(n) for n in names), *_ADDED])


def checked_names(
    shown: TableSnapshot, columns: Sequence[str] | None, key: str | Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return the columns to show and those of the key; raise `InvalidInput` if one is wrong."""
    check_columns(columns, shown.definition, shown.name)
    names = shown.schema.names if columns is None else list(columns)
    taken = next((n for n in names if n in CHANGE_COLUMNS), None)
    if taken is not None:
        what = f"Column {taken!r} of {shown.name} has the name of a column that changes have."
        raise InvalidInput(what, hint="Leave it out with columns=.", table=shown.name, column=taken)
    keys = [] if key is None else [key] if isinstance(key, str) else arguments.texts(key, "key")
    if key is not None and not keys:
        what = "`key` names no column."
        raise InvalidInput(what, hint="Leave it out, or name one.", parameter="key")
    check_columns(keys, shown.definition, shown.name)
    nested = next((k for k in keys if pa.types.is_nested(shown.schema.arrow.field(k).type)), None)
    if nested is not None:
        what = f"Column {nested!r} of {shown.name} is nested and cannot be a key."
        raise InvalidInput(what, table=shown.name, column=nested)
    return names, keys


def first_version(session: Session, head: Head, since: Point) -> int:
    """Return the first version of a range, from `since`; it is part of the range.

    For a time: the first version that is not older. For a tag: the version after the tagged one,
    because a tag refers to a state, not to a change.

    Raises:
        VersionNotFound: There is no such version.
    """
    if isinstance(since, int) and not isinstance(since, bool):
        return _existing(session, head, arguments.whole(since, "since", least=-LIVE))
    tagged = _tagged(session, head, since)
    if tagged is not None:
        if tagged == head.version:
            what = f"Table {head.name} has no version after that of tag {since!r}, {tagged}."
            raise VersionNotFound(what, table=str(head.name), version=tagged + 1)
        return tagged + 1
    named = _named(session, head, since)
    if named is not None:
        return named
    moment = _moment(since)
    found = commits.first_since(session, head.table_id, moment)
    if found is None:
        what = f"Table {head.name} has no version from {to_datetime(moment).isoformat()} on."
        hint = f"The newest, {head.version}, is of {to_datetime(head.timestamp_ms).isoformat()}."
        raise VersionNotFound(what, hint=hint, table=str(head.name), timestamp=moment)
    return found


def last_version(session: Session, head: Head, until: Point | None) -> int:
    """Return the last version of a range, from `until`; the newest when None.

    For a time: the newest version that is not newer.

    Raises:
        VersionNotFound: There is no such version.
    """
    if until is None:
        return head.version
    if isinstance(until, int) and not isinstance(until, bool):
        return _existing(session, head, arguments.whole(until, "until", least=-LIVE))
    named = _tagged(session, head, until)
    if named is None:
        named = _named(session, head, until)
    if named is not None:
        return named
    moment = _moment(until)
    found = commits.version_at(session, head.table_id, moment)
    if found is None:
        what = f"Table {head.name} had no version at {to_datetime(moment).isoformat()}."
        hint = "It was created, or adopted, later."
        raise VersionNotFound(what, hint=hint, table=str(head.name), timestamp=moment)
    return found


def check_range(head: Head, since: int, until: int) -> None:
    """Raise `InvalidInput` for a range that ends before it begins."""
    if until < since:
        what = f"The range of {head.name} ends at version {until}, before it begins at {since}."
        hint = "`since` and `until` name the first and the last version; both are in the range."
        raise InvalidInput(what, hint=hint, table=str(head.name))


def _moment(point: object) -> int:
    """Return a time in milliseconds; raise an error if `point` is no time."""
    if isinstance(point, bool) or not isinstance(point, str | datetime):
        raise no_point(point)
    try:
        return to_ms(point)
    except InvalidInput:
        if isinstance(point, datetime):
            raise
        raise unknown(point) from None


def _existing(session: Session, head: Head, version: int) -> int:
    if commits.one(session, head.table_id, version) is None:
        first = commits.first_version(session, head.table_id)
        what = f"Table {head.name} has no version {version}."
        hint = f"It has versions {first} to {head.version}."
        raise VersionNotFound(what, hint=hint, table=str(head.name), version=version)
    return version


def _tagged(session: Session, head: Head, name: object) -> int | None:
    """Return the table's version in a tag; None if there is no such tag.

    Raises:
        VersionNotFound: The tag is one of other tables.
    """
    if not isinstance(name, str) or tags.find(session, name) is None:
        return None
    return version_of_tag(session, head, name)


def _named(session: Session, head: Head, name: object) -> int | None:
    """Return the version that a transaction made of the table; None if it is no transaction id."""
    if not isinstance(name, str):
        return None
    members = commits.members(session, name)
    if not members:
        return None
    found = next((v for _, table_id, v in members if table_id == head.table_id), None)
    if found is None:
        others = ", ".join(str(n) for n, _, _ in members)
        what = f"Transaction {name} did not change {head.name}."
        hint = f"It changed {others}."
        raise VersionNotFound(what, hint=hint, table=str(head.name), transaction_id=name)
    return found


def _found(
    context: LakeContext, head: Head, low: int, high: int, shown: Definition
) -> Iterator[ChangedFiles]:
    """Yield the commits of a range with their files, oldest first, reading some at a time."""
    known = None
    while low <= high:
        end = min(high, low + _PAGE - 1)
        with context.database.read() as session:
            known = known or Definitions(session, head.table_id)
            page = commits.history(session, head.table_id, low=low, high=end, limit=_PAGE)
            found = changed_files(session, head.table_id, page[::-1], known, shown)
        yield from found
        low = end + 1


def _groups(source: Iterable[ChangedFiles], reader: ChangeReader) -> Iterator[list[ChangedFiles]]:
    """Yield commits that are read together, because they only inserted rows; others alone."""
    group: list[ChangedFiles] = []
    for found in source:
        joins = reader.can_join(found)
        if group and not (joins and found.definition is group[0].definition):
            yield group
            group = []
        if not joins:
            yield [found]
            continue
        group.append(found)
        if len(group) == _PAGE:
            yield group
            group = []
    if group:
        yield group


def _pieces(groups: Iterable[list[ChangedFiles]]) -> Iterator[list[list[ChangedFiles]]]:
    """Yield small groups together: a thread takes longer to begin than to read one."""
    piece: list[list[ChangedFiles]] = []
    size = 0
    for group in groups:
        own = _bytes(group)
        if piece and (size + own > _PIECE_BYTES or len(piece) == _PAGE):
            yield piece
            piece, size = [], 0
        piece.append(group)
        size += own
    if piece:
        yield piece


def _piece_bytes(piece: list[list[ChangedFiles]]) -> int:
    return sum(map(_bytes, piece))


def _bytes(group: list[ChangedFiles]) -> int:
    """Return how many bytes are read for some commits."""
    return sum(
        sum(f.size for f in found.told)
        or sum(f.size for some in (found.added, found.removed) for f in some)
        for found in group
    )


class _Marks:
    """Adds the four columns; their constant values are built once."""

    def __init__(self, commit: LoggedCommit, schema: pa.Schema) -> None:
        self.commit = commit
        self._schema = schema
        moment = pa.scalar(commit.timestamp_ms * 1000, _ADDED[2].type)
        self._constant = (
            pa.scalar(commit.version, pa.int64()),
            moment,
            pa.scalar(commit.info.transaction_id),
        )
        self._made: dict[pa.Scalar, pa.Array] = {}

    def added(self, batch: pa.RecordBatch, kind: str | None) -> pa.RecordBatch:
        """Return the batch with these columns; without a kind, its last column holds the kinds."""
        count = batch.num_rows
        own = [] if kind is None else [self._repeated(pa.scalar(kind), count)]
        more = (self._repeated(value, count) for value in self._constant)
        columns = [*batch.columns, *own, *more]
        # Without any column of the table to show, the first one was read for the number of rows.
        return pa.RecordBatch.from_arrays(columns[-len(self._schema) :], schema=self._schema)

    def _repeated(self, value: pa.Scalar, count: int) -> pa.Array:
        made = self._made.get(value)
        if made is None:
            made = self._made[value] = pa.repeat(value, count)
        elif len(made) < count:
            made = self._made[value] = pa.repeat(value, max(count, min(count * 4, _MADE_ROWS)))
        return made.slice(0, count)
