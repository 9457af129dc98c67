"""The form in which each table of a query is given to an engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from lakeward.errors import FileMissing

Partitions: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values of columns that are constant in a file, and that the file lacks."""


@dataclass(frozen=True, slots=True)
class PlainFiles:
    """Local Parquet files that contain a table's rows without need of conversion."""

    paths: Sequence[str]
    partitions: Sequence[Partitions] = ()  # for each file, if the table is partitioned

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
    dataset: Callable[[], Any]  # returns an Arrow dataset of all rows
    files: PlainFiles | None = None  # the same rows, if an engine may read the files itself
    partitioned: Mapping[str, pa.DataType] = field(default_factory=dict)
    reason: str | None = None  # why there are no files that an engine may read itself
