"""Rows found by their keys: which files may hold some."""

from __future__ import annotations

import pyarrow as pa

from lakeward.engines.arrow import keys as arrow_keys
from lakeward.model.expressions.nodes import Expression
from lakeward.model.keys import between
from lakeward.model.schema import Schema
from lakeward.model.values import to_neutral


def scope(keys: pa.Table, schema: Schema) -> Expression | None:
    """A condition for all rows that may have one of some keys; None stands for every row."""
    spans = arrow_keys.span(keys)
    bounds = {}
    for name in keys.column_names:
        field = schema.by_name[name]
        low, high = (to_neutral(field.type, value) for value in spans[name])
        bounds[field] = (low, high)
    return between(bounds)
