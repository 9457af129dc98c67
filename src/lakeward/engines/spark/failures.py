"""What Spark says of rows that a table does not take, in the lake's own errors."""

from __future__ import annotations

import re
from typing import Final

from lakeward.errors import ConstraintViolation, LakewardError, SchemaMismatch

_NULL: Final = re.compile(r"DELTA_NOT_NULL_CONSTRAINT_VIOLATED|NOT_NULL_ASSERT_VIOLATION")
_COLUMN: Final = re.compile(r"(?:for column|non-nullable field):\s*`?([\w.]+)`?", re.IGNORECASE)
_CHECK: Final = re.compile(r"CHECK constraint (\w+)")
_MISFIT: Final = re.compile(
    r"\[(INCOMPATIBLE_DATA_FOR_TABLE|INSERT_COLUMN_ARITY_MISMATCH|DELTA_FAILED_TO_MERGE_FIELDS"
    r"|CAST_OVERFLOW_IN_TABLE_INSERT|CAST_INVALID_INPUT|DELTA_INSERT_COLUMN_ARITY_MISMATCH)"
)


def translated(error: Exception, table: str) -> LakewardError | None:
    """The lake's error for one of Spark's; None where it is not about rows of the table."""
    said = str(error)
    if _NULL.search(said):
        found = _COLUMN.search(said)
        column = found[1].rstrip(".") if found else "a required column"
        what = f"Column {column} of {table} is required, and a value is missing."
        return ConstraintViolation(
            what,
            hint="Nothing was committed.",
            table=table,
            constraint=f"{column} is not null",
            column=column,
        )
    misfit = _MISFIT.search(said)
    if misfit is not None:
        first = said.split("\n", 1)[0]
        what = f"The rows do not fit table {table}: {first}"
        return SchemaMismatch(what, hint="Nothing was committed.", table=table)
    return None
