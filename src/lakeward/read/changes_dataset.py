"""The rows that a range of versions changed, as an Arrow dataset that can be read repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from lakeward.engines.arrow.dataset import LakeDataset
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile
from lakeward.model.schema import Schema

_OF_CHANGES: Final = ("_change_type", "_commit_version", "_commit_timestamp", "_transaction_id")


def changes_dataset(
    changes: Callable[[Sequence[str] | None], pa.RecordBatchReader], *, label: str
) -> LakeDataset:
    """Return a dataset of change rows, which are read when they are requested.

    Args:
        changes: Returns a reader of the changes, with the given columns, or all when None.
        label: The name that the dataset is displayed with.
    """
    with changes(None) as reader:
        schema = Schema.from_arrow(reader.schema)

    def plan(_: Expression | None) -> list[LoggedFile]:
        return []

    def read(_: Sequence[LoggedFile], columns: Sequence[str]) -> pa.RecordBatchReader:
        # The columns of the change are always read; at least one of the table must be given.
        own = [n for n in columns if n not in _OF_CHANGES]
        return changes(own or schema.names[:1])

    return LakeDataset(schema, plan, read, label=label, nan_is_greatest=True)
