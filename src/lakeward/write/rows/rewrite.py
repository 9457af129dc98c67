"""Rows staged from a user's data, and rows of files that are written again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from lakeward.engines.arrow.input import tables_of
from lakeward.errors import UnsupportedFeature
from lakeward.model.file import DataFile, LoggedFile
from lakeward.read.scan import needs_engine, read_files
from lakeward.storage.base import Storage
from lakeward.write.plan.change import Change
from lakeward.write.plan.validate import Checks
from lakeward.write.rows.portions import by_parts
from lakeward.write.stage.stager import Stager


def stage(stager: Stager, data: Any, checks: Checks | None = None) -> list[DataFile]:
    """Write a user's rows as files, checked."""
    definition = stager.definition
    table = str(stager.head.name)
    tables = tables_of(data, definition.schema.arrow, table)
    return stager.stage(tables, checks or Checks.of(definition, table))


def rows_of(storage: Storage, change: Change, file: LoggedFile) -> Iterator[pa.Table]:
    """The rows of a file that is to be written again, part by part.

    Raises:
        UnsupportedFeature: They need another engine.
    """
    if needs_engine(change.definition):
        what = f"Table {change.head.name} has columns that are mapped by ids."
        hint = "Change its rows with Spark, or replace whole partitions."
        raise UnsupportedFeature(what, hint=hint, table=str(change.head.name))
    reader = read_files(storage, change.head, change.definition, [file])
    return by_parts(reader, reader.schema)


def write_again(stager: Stager, kept: Iterable[pa.Table]) -> list[DataFile]:
    """Write rows again that were checked when they were new."""
    return stager.stage(kept, Checks(str(stager.head.name), {}), trusted=True)
