"""Rows for a table as a frame of Spark, whatever they are given as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeward.engines.arrow.input import tables_of
from lakeward.engines.spark.types import foreign_types
from lakeward.errors import SchemaMismatch
from lakeward.model.definition import Definition

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame, SparkSession


def frame_of(session: SparkSession, data: Any, definition: Definition, table: str) -> DataFrame:
    """Rows as a frame, with columns of the table only."""
    if hasattr(data, "_jdf"):
        frame: DataFrame = data
        _check_types(frame, table)
    else:
        given = list(tables_of(data, definition.schema.to_arrow(), table))
        frame = session.createDataFrame(pa.concat_tables(given) if given else pa.table({}))
    _check_names(frame.columns, definition, table)
    return frame


def _check_types(frame: DataFrame, table: str) -> None:
    for column, kind, instead in foreign_types(frame.schema):
        what = f"Column {column} of the data for {table} is {kind}, which the table cannot keep."
        raise SchemaMismatch(what, hint=instead, table=table, columns=[column])


def _check_names(given: Sequence[str], definition: Definition, table: str) -> None:
    schema = definition.schema
    extra = [name for name in given if name not in schema.by_name]
    if extra:
        what = f"The data for {table} has {', '.join(extra)}, which the table does not have."
        hint = f"The table's columns are {', '.join(schema.names)}."
        raise SchemaMismatch(what, hint=hint, table=table, columns=extra)
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        what = f"The data for {table} has the column {twice[0]!r} more than once."
        raise SchemaMismatch(what, table=table, columns=twice)
    lacking = [
        f.name
        for f in schema
        if f.name not in given
        and not f.nullable
        and f.default is None
        and f.id not in definition.derived
    ]
    if lacking:
        what = f"The data for {table} lacks {', '.join(lacking)}."
        raise SchemaMismatch(what, table=table, columns=lacking)
