"""The form in which an engine gets each table of a query."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from lakeward.errors import FileMissing

Partitions: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values of the columns that a file lacks, because they are the same in all its rows."""


@dataclass(frozen=True, slots=True)
class PlainFiles:
    """Local Parquet files that hold a table's rows exactly as the table shows them."""

    paths: Sequence[str]
    partitions: Sequence[Partitions] = ()  # of each file, if the table is partitioned

    def check(self) -> None:
        """Raise `FileMissing` for a missing file, which engines might silently skip."""
        missing = next((p for p in self.paths if not os.path.exists(p)), None)  # noqa: PTH110
        if missing is not None:
            what = f"A data file of the version is missing: {missing}."
            raise FileMissing(what, hint="`lakeward doctor` lists what is missing.")


@dataclass(frozen=True, slots=True)
class Source:
    """A table of a query: its columns, and its rows as files or as a dataset."""

    schema: pa.Schema
    dataset: Callable[[], Any]  # an Arrow dataset of all its rows
    files: PlainFiles | None = None  # the same rows, if an engine may read the files itself
    partitioned: Mapping[str, pa.DataType] = field(default_factory=dict)
    reason: str | None = None  # why there are no files that an engine may read itself
