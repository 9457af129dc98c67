"""Rows found by their keys: which files may hold some, and what stays of a file without them."""

from __future__ import annotations

import pyarrow as pa

from lakeward.engines.arrow import keys as arrow_keys
from lakeward.model.expression import Expression
from lakeward.model.file import LoggedFile
from lakeward.model.keys import between
from lakeward.model.schema import Schema
from lakeward.model.values import to_neutral
from lakeward.read.scan import needs_engine, read_files
from lakeward.storage.base import Storage
from lakeward.write import rewrite
from lakeward.write.change import Change


def scope(keys: pa.Table, schema: Schema) -> Expression | None:
    """A condition for all rows that may have one of some keys; None stands for every row."""
    spans = arrow_keys.span(keys)
    bounds = {}
    for name in keys.column_names:
        field = schema.by_name[name]
        low, high = (to_neutral(field.type, value) for value in spans[name])
        bounds[field] = (low, high)
    return between(bounds)


def without(storage: Storage, change: Change, file: LoggedFile, keys: pa.Table) -> pa.Table | None:
    """The rows of a file whose key is not among some keys; None where the file has none of them.

    Raises:
        UnsupportedFeature: The file's rows need another engine.
    """
    if not needs_engine(change.definition):
        # Mostly a file that may have such rows has none, and its keys alone tell.
        names = keys.column_names
        found = read_files(
            storage, change.head, change.definition, [file], columns=names
        ).read_all()
        if arrow_keys.without(found, keys).num_rows == found.num_rows:
            return None
    rows = rewrite.rows_of(storage, change, file)
    return arrow_keys.without(rows, keys)
