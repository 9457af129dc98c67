"""Where a step's rows come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from lakeward.model import arguments
from lakeward.model.names import TableName


@dataclass(frozen=True, slots=True)
class Landing:
    """A directory that gets new Parquet files; each file is taken in once.

    Attributes:
        path: The directory, below the run's landing place unless it is a whole path or URL.
        schema: What to read the files as, as Spark spells it; their own schema when None.
    """

    path: str
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class New:
    """The rows that came into a table since the step looked last, this run's own among them."""

    table: TableName


@dataclass(frozen=True, slots=True)
class Whole:
    """A table as the run sees it, this run's own changes among it."""

    table: TableName


Source: TypeAlias = Landing | New | Whole


def landing(path: str, *, schema: str | None = None) -> Landing:
    """New Parquet files of a directory, each of them exactly once.

    Files whose names begin with `.` or `_` are left alone: give a file its name when it is whole.

    Args:
        path: Below the landing place that the run is given, or a whole path or URL.
        schema: What to read the files as, in Spark's words (`id BIGINT, amount DOUBLE`), so that
            one that lacks a column gives nulls. Their own schema when not given.
    """
    arguments.text(path, "path")
    arguments.optional_text(schema, "schema")
    return Landing(path.rstrip("/") or path, schema)


def new(table: str) -> New:
    """The rows that came into a table since the step looked last.

    Of a table that an earlier step of the same run writes, these are the rows that it wrote. What
    others committed since the last run comes from the table's change feed, or from the files they
    added where nothing was removed; updated rows come as they are now, deleted rows do not come.
    """
    return New(TableName.parse(table))


def whole(table: str) -> Whole:
    """A table as the run sees it, with what earlier steps of the same run did to it."""
    return Whole(TableName.parse(table))
