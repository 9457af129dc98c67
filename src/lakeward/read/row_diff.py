"""Computes the rows by which two tables, or two versions of one, differ.

Two versions of a table are compared by the files that only one of them has. Tables that share no
files are read completely. Memory is bounded in both cases: see `lakeward.engines.arrow.net_rows`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from lakeward.engines.arrow.keys import count_differing
from lakeward.engines.arrow.net_rows import NetRows, net_rows
from lakeward.errors import InvalidInput, SchemaMismatch
from lakeward.log import files
from lakeward.model import arguments
from lakeward.model.file import LoggedFile
from lakeward.model.progress import advance, expect
from lakeward.model.row_counts import SAMPLE
from lakeward.model.schema import Schema
from lakeward.read.auditing import audit_read
from lakeward.read.change_rows import ChangeReader
from lakeward.read.past_columns import has_returned, optional
from lakeward.read.scan import check_columns
from lakeward.read.snapshot import TableSnapshot
from lakeward.read.widest import in_widest_type_of

_MEMORY: Final = 256 * 2**20
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A changed row of one key: its old and new values."""

    old: Row
    new: Row


@dataclass(frozen=True, slots=True)
class RowDiff:
    """The rows by which two tables differ, as changes from the left table to the right one.

    Attributes:
        left: The left side: a table's name, with its version if there is one.
        right: The right side, in the same form.
        key: The columns that identify a row; without them no row counts as changed.
        inserted: How many rows only the right side has.
        deleted: How many rows only the left side has.
        changed: How many rows have other values under the same key.
        columns: How many values of each column changed, for columns with changed values.
        only_left: Columns that only the left side has; they are not compared.
        only_right: Columns that only the right side has; they are null in rows of the left side.
        inserted_sample: Some of the inserted rows.
        deleted_sample: Some of the deleted rows.
        changed_sample: Some of the changed rows, with old and new values.
    """

    left: str
    right: str
    key: tuple[str, ...]
    inserted: int
    deleted: int
    changed: int
    columns: Mapping[str, int]
    only_left: tuple[str, ...]
    only_right: tuple[str, ...]
    inserted_sample: tuple[Row, ...]
    deleted_sample: tuple[Row, ...]
    changed_sample: tuple[ChangedRow, ...]

    @property
    def is_empty(self) -> bool:
        """Whether both sides have the same rows."""
        return not (self.inserted or self.deleted or self.changed)


class Comparable(Protocol):
    """A table, a snapshot or a table on a branch, whose rows can be compared."""

    @property
    def name(self) -> str:
        """The table's name."""

    @property
    def schema(self) -> Schema:
        """The table's columns."""

    def to_reader(self, *, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Return the rows."""


def version_rows(
    first: TableSnapshot,
    second: TableSnapshot,
    gone: Sequence[LoggedFile],
    came: Sequence[LoggedFile],
    *,
    key: str | Sequence[str] | None,
    sample: int = SAMPLE,
) -> RowDiff:
    """Compare two versions of a table by the files that only one of them has.

    Columns are those of the second version, matched by field id, each in the wider type of the two
    versions. If the first version lacks a column that was dropped and returned, all files of both
    are compared.
    """
    second = in_widest_type_of(second, first)
    keys = _keys(key)
    check_columns(keys, second.definition, second.name)
    audit_read(second.context, second.log_head, second.version, "diff")
    reader = ChangeReader(
        second.context, second.log_head, second.definition, columns=second.schema.names
    )
    whole = has_returned(first.schema, second.schema)
    if whole:
        gone, came = (_all_files(snapshot) for snapshot in (first, second))
    before, after = reader.sides(gone, first.definition, came, second.definition, whole=whole)
    expect(sum(f.file.logged_rows for f in (*gone, *came)))
    return _counted(
        _Names(f"{first.name} version {first.version}", f"{second.name} version {second.version}"),
        (_advancing(before), _advancing(after)),
        optional(second.schema.to_arrow()),
        keys,
        only_left=[f.name for f in first.schema if f.id not in second.schema.by_id],
        only_right=[f.name for f in second.schema if f.id not in first.schema.by_id],
        sample=sample,
    )


def table_rows(
    left: Comparable,
    right: Comparable,
    *,
    key: str | Sequence[str] | None,
    sample: int = SAMPLE,
) -> RowDiff:
    """Compare two tables; columns are matched by name.

    Raises:
        SchemaMismatch: The types of a column in the two tables cannot be compared.
        InvalidInput: One of the tables lacks a column of the key.
    """
    theirs, own = left.schema.to_arrow(), right.schema.to_arrow()
    shared = [n for n in own.names if n in theirs.names]
    keys = _keys(key)
    unknown = next((k for k in keys if k not in shared), None)
    if unknown is not None or not shared:
        what = f"{left.name} and {right.name} do not both have a column {unknown or ''!r}."
        raise InvalidInput(what, hint=f"Both have {', '.join(shared) or 'none'}.", column=unknown)
    schema = optional(own)
    before = _conformed(left.to_reader(columns=shared), schema, left.name)
    after = _conformed(right.to_reader(columns=own.names), schema, right.name)
    return _counted(
        _Names(_label(left), _label(right)),
        (before, after),
        schema,
        keys,
        only_left=[n for n in theirs.names if n not in own.names],
        only_right=[n for n in own.names if n not in theirs.names],
        sample=sample,
    )


@dataclass(frozen=True, slots=True)
class _Names:
    left: str
    right: str


def _counted(
    names: _Names,
    sides: tuple[Iterable[pa.RecordBatch], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
    key: Sequence[str],
    *,
    only_left: Sequence[str],
    only_right: Sequence[str],
    sample: int,
) -> RowDiff:
    counts: Counter[str] = Counter()
    columns: Counter[str] = Counter()
    samples: dict[str, list[Any]] = {"inserted": [], "deleted": [], "changed": []}
    for part in net_rows(*sides, schema, key=key, memory=_MEMORY):
        counts.update(
            inserted=part.inserted.num_rows,
            deleted=part.deleted.num_rows,
            changed=part.after.num_rows,
        )
        columns.update(_changed_values(part))
        _take(samples["inserted"], part.inserted, sample)
        _take(samples["deleted"], part.deleted, sample)
        left = sample - len(samples["changed"])
        pairs = zip(
            part.before.slice(0, left).to_pylist(),
            part.after.slice(0, left).to_pylist(),
            strict=True,
        )
        samples["changed"] += [ChangedRow(old, new) for old, new in pairs]
    return RowDiff(
        left=names.left,
        right=names.right,
        key=tuple(key),
        inserted=counts["inserted"],
        deleted=counts["deleted"],
        changed=counts["changed"],
        columns={n: columns[n] for n in schema.names if columns[n]},
        only_left=tuple(only_left),
        only_right=tuple(only_right),
        inserted_sample=tuple(samples["inserted"]),
        deleted_sample=tuple(samples["deleted"]),
        changed_sample=tuple(samples["changed"]),
    )


def _all_files(snapshot: TableSnapshot) -> Sequence[LoggedFile]:
    with snapshot.context.database.read() as session:
        return list(files.at(session, snapshot.log_head.table_id, snapshot.version))


def _advancing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches, and count their rows as progress."""
    for batch in batches:
        yield batch
        advance(batch.num_rows)


def _take(held: list[Any], rows: pa.Table, most: int) -> None:
    held += rows.slice(0, most - len(held)).to_pylist()


def _changed_values(part: NetRows) -> dict[str, int]:
    names = part.after.column_names
    return {name: count_differing(part.before[name], part.after[name]) for name in names}


def _conformed(
    rows: pa.RecordBatchReader, schema: pa.Schema, name: str
) -> Iterator[pa.RecordBatch]:
    try:
        for batch in rows:
            known = batch.schema.names
            columns = [
                batch.column(f.name).cast(f.type)
                if f.name in known
                else pa.nulls(batch.num_rows, f.type)
                for f in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        what = f"Rows of {name} cannot be compared: {error}."
        hint = "Columns of one name must have types that fit."
        raise SchemaMismatch(what, hint=hint, table=name) from error


def _keys(key: str | Sequence[str] | None) -> list[str]:
    if key is None:
        return []
    return [key] if isinstance(key, str) else arguments.texts(key, "key")


def _label(source: Comparable) -> str:
    version = getattr(source, "version", None)
    return source.name if version is None else f"{source.name} version {version}"
