"""A table at a version as an Arrow dataset, and as a lazy Polars frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.arrow.dataset import LakeDataset, Plan
from lakeward.engines.arrow.expression import to_arrow
from lakeward.engines.arrow.file_access import DEFAULT_ACCESS, FileAccess
from lakeward.engines.arrow.first_rows import first_rows
from lakeward.engines.arrow.scan import failed
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import And, Expression
from lakeward.model.expressions.nodes import columns as columns_of
from lakeward.model.file import LoggedFile
from lakeward.model.parameters import Params
from lakeward.model.schema import Schema
from lakeward.model.sorting import SortKey
from lakeward.read.auditing import audit_read
from lakeward.read.microseconds import cast_rows, in_microseconds, marked
from lakeward.read.scan import read_files


class Version(Protocol):
    """A table at a version, such as a snapshot."""

    @property
    def context(self) -> LakeContext:
        """The lake's context."""

    @property
    def log_head(self) -> Head:
        """The table's head."""

    @property
    def definition(self) -> Definition:
        """The definition at the version."""

    @property
    def schema(self) -> Schema:
        """The columns at the version."""

    @property
    def name(self) -> str:
        """The table's name."""

    @property
    def version(self) -> int:
        """The version."""

    def parsed(self, where: str | None, params: Params | None = None) -> Expression | None:
        """Return the condition of a text."""

    def plan(self, where: Expression | None = None) -> list[LoggedFile]:
        """Return the files that may hold matching rows."""


def both(one: Expression | None, other: Expression | None) -> Expression | None:
    """Return a condition that is true where both are; None is true everywhere."""
    if one is None or other is None:
        return one if other is None else other
    return And((one, other))


def audited(snapshot: Version) -> Version:
    """Record a read if the policy `audit_reads` asks for it; return the snapshot."""
    audit_read(snapshot.context, snapshot.log_head, snapshot.version, "dataset")
    return snapshot


def lazy_frame_of(
    snapshot: Version,
    *,
    where: Expression | None = None,
    order_by: Sequence[SortKey] = (),
    limit: int | None = None,
) -> Any:
    """Return a lazy Polars frame of a snapshot, or of its rows that match a condition.

    With `order_by` they are in that order, and with `limit` only its first ones.
    """
    from lakeward.engines.polars import lazy_frame

    def read(
        asked: Expression | None, columns: Sequence[str], n_rows: int | None
    ) -> pa.RecordBatchReader:
        most = min((n for n in (limit, n_rows) if n is not None), default=None)
        # A condition of a query on the first rows filters them, and does not change which they are.
        condition = both(where, asked if limit is None else None)
        files = snapshot.plan(condition)
        if not order_by:
            return rows_of(files, columns, condition)
        used = frozenset[int]() if where is None else columns_of(where)
        used |= {key.field.id for key in order_by}
        names = [f.name for f in snapshot.schema if f.id in used or f.name in columns]
        kept = None if where is None else to_arrow(where)
        try:
            found = first_rows(files, order_by, most, lambda some: rows_of(some, names), kept)
        except pa.ArrowInvalid as error:
            raise failed(error) from error
        return found.select(list(columns)).to_reader()

    def rows_of(
        files: Sequence[LoggedFile], columns: Sequence[str], condition: Expression | None = None
    ) -> pa.RecordBatchReader:
        return read_files(
            snapshot.context.storage,
            snapshot.log_head,
            snapshot.definition,
            files,
            columns=columns,
            where=condition,
        )

    return lazy_frame(snapshot.schema, read, f"{snapshot.name}, version {snapshot.version}")


def dataset_of(
    snapshot: Version,
    plan: Plan | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
    for_sql: bool = False,
    access: FileAccess = DEFAULT_ACCESS,
) -> LakeDataset:
    """Return an Arrow dataset of a snapshot.

    Args:
        snapshot: The table.
        plan: Selects the files; by default the snapshot's own plan.
        columns: The columns of the dataset; all of the table when None.
        where: The dataset has only the rows for which this is true; all when None.
        for_sql: Order NaN above all numbers as SQL does, instead of as Arrow does, and have
            microseconds for milliseconds.
        access: How the files are opened.
    """
    schema, choose = snapshot.schema, plan or snapshot.plan
    if columns is not None:
        schema = Schema(tuple(schema.field(name) for name in columns), schema.last_id)
    own, schema = schema, in_microseconds(schema) if for_sql else schema
    arrow_schema = None if own is schema else marked(schema, own)

    def read(files: Sequence[LoggedFile], names: Sequence[str]) -> pa.RecordBatchReader:
        found = read_files(
            snapshot.context.storage,
            snapshot.log_head,
            snapshot.definition,
            files,
            columns=names,
            where=where,
            access=access,
        )
        return found if arrow_schema is None else cast_rows(found, arrow_schema)

    label = f"{snapshot.name}, version {snapshot.version}"
    return LakeDataset(
        schema,
        lambda asked: choose(both(where, asked)),
        read,
        label=label,
        nan_is_greatest=for_sql,
        is_whole=where is None,
        arrow_schema=arrow_schema,
    )
