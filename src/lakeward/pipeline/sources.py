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
        missing_ok: A directory that does not exist is no error.
    """

    path: str
    schema: str | None = None
    missing_ok: bool = False


@dataclass(frozen=True, slots=True)
class New:
    """The rows that came into a table since the step looked last, this run's own among them."""

    table: TableName


@dataclass(frozen=True, slots=True)
class Whole:
    """A table as the run sees it, this run's own changes among it."""

    table: TableName


Source: TypeAlias = Landing | New | Whole


def landing(path: str, *, schema: str | None = None, missing_ok: bool = False) -> Landing:
    """New Parquet files of a directory, each of them exactly once.

    Files whose names begin with `.` or `_` are left alone: give a file its name when it is whole.
    Files of other types (CSV, JSON, …) are not read; the run's report names them.

    Args:
        path: Below the landing place that the run is given, or a whole path or URL.
        schema: What to read the files as, in Spark's words (`id BIGINT, amount DOUBLE`), so that
            one that lacks a column gives nulls. When not given, the columns of all new files
            together.
        missing_ok: A directory that does not exist has no files. It is an error otherwise.
    """
    arguments.text(path, "path")
    arguments.optional_text(schema, "schema")
    arguments.flag(missing_ok, "missing_ok")
    return Landing(path.rstrip("/") or path, schema, missing_ok)


def new(table: str) -> New:
    """The rows that came into a table since the step looked last.

    Of a table that an earlier step of the same run writes, these are the rows that it wrote. What
    others committed since the last run comes from the table's change feed, or from the files they
    added where nothing was removed; updated rows come as they are now, deleted rows do not come.
    The values that rows had before do not come either: make totals of groups from `whole`, because
    the group that a row has left would keep its old total.
    """
    return New(TableName.parse(table))


def whole(table: str) -> Whole:
    """A table as the run sees it, with what earlier steps of the same run did to it.

    A step that has no other sources runs when one of these tables has changed.
    """
    return Whole(TableName.parse(table))
