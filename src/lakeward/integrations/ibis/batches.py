"""Rows of Ibis' backends with the types that their expressions have.

Ibis 12 does not convert the batches of a backend: those of DuckDB have DuckDB's own types, although
their reader has the schema of the expression. Read by that schema, their bytes are other values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lakeward.engines.arrow.decimals import cast
from lakeward.errors import InvalidInput


def batches_of(backend: Any, expression: Any) -> pa.RecordBatchReader:
    """Return the rows of an expression, converted to its types; raise `InvalidInput`."""
    reader: pa.RecordBatchReader = backend.to_pyarrow_batches(expression)
    schema: pa.Schema = expression.schema().to_pyarrow()

    def converted() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [_converted(v, f) for v, f in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, converted())


def _converted(values: pa.Array, field: pa.Field) -> pa.Array:
    if values.type.equals(field.type):
        return values
    try:
        return cast(values, field.type)
    except pa.ArrowException as error:
        what = f"Column {field.name} of the expression is {field.type}, and the engine returns"
        what = f"{what} {values.type}: {error}."
        hint = "Cast the column in the expression."
        raise InvalidInput(what, hint=hint, column=field.name) from error
