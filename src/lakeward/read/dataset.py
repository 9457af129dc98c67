"""A table at a version as an Arrow dataset, and as a lazy Polars frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.arrow.dataset import LakeDataset, Plan
from lakeward.engines.arrow.file_access import DEFAULT_ACCESS, FileAccess
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import And, Expression
from lakeward.model.file import LoggedFile
from lakeward.model.schema import Schema
from lakeward.read.auditing import audit_read
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

    def plan(self, where: Expression | None = None) -> list[LoggedFile]:
        """Return the files that may hold matching rows."""


def both(one: Expression | None, other: Expression | None) -> Expression | None:
    """Return a condition that is true where both are; None is true everywhere."""
    if one is None or other is None:
        return one if other is None else other
    return And((one, other))


def audited(snapshot: Version) -> Version:
    """Return a snapshot that is going to be read, once that is recorded if it must be."""
    audit_read(snapshot.context, snapshot.log_head, snapshot.version, "dataset")
    return snapshot


def lazy_frame_of(snapshot: Version) -> Any:
    """Return a lazy Polars frame of a snapshot."""
    from lakeward.engines.polars import lazy_frame

    def read(condition: Expression | None, columns: Sequence[str]) -> pa.RecordBatchReader:
        return read_files(
            snapshot.context.storage,
            snapshot.log_head,
            snapshot.definition,
            snapshot.plan(condition),
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
    nan_is_greatest: bool = False,
    access: FileAccess = DEFAULT_ACCESS,
) -> LakeDataset:
    """Return an Arrow dataset of a snapshot.

    Args:
        snapshot: The table.
        plan: Selects the files; by default the snapshot's own plan.
        columns: The columns of the dataset; all of the table when None.
        where: The dataset has only the rows for which this is true; all when None.
        nan_is_greatest: Order NaN above all numbers as SQL does, instead of as Arrow does.
        access: How the files are opened.
    """

    def read(files: Sequence[LoggedFile], names: Sequence[str]) -> pa.RecordBatchReader:
        return read_files(
            snapshot.context.storage,
            snapshot.log_head,
            snapshot.definition,
            files,
            columns=names,
            where=where,
            access=access,
        )

    schema, choose = snapshot.schema, plan or snapshot.plan
    if columns is not None:
        schema = Schema(tuple(schema.field(name) for name in columns), schema.last_id)
    label = f"{snapshot.name}, version {snapshot.version}"
    return LakeDataset(
        schema,
        lambda asked: choose(both(where, asked)),
        read,
        label=label,
        nan_is_greatest=nan_is_greatest,
    )
