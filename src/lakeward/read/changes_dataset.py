"""The rows that a range of versions changed, as a dataset of Arrow that can be read again."""

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
    """A dataset of change rows; nothing is read before its rows are asked for.

    Args:
        changes: Begins to read the changes, with these columns of the table, or all when None.
        label: What it is called when it is shown.
    """
    with changes(None) as reader:
        schema = Schema.from_arrow(reader.schema)

    def plan(_: Expression | None) -> list[LoggedFile]:
        return []

    def read(_: Sequence[LoggedFile], columns: Sequence[str]) -> pa.RecordBatchReader:
        # The columns of the change itself always come; one of the table's own is needed.
        own = [n for n in columns if n not in _OF_CHANGES]
        return changes(own or schema.names[:1])

    return LakeDataset(schema, plan, read, label=label, nan_is_greatest=True)
