"""Translates Spark's errors about rows that a table does not accept to errors of Lakeward."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from lakeward.engines.spark.extra import pyspark
from lakeward.errors import ConstraintViolation, LakewardError, SchemaMismatch

_NULL: Final = re.compile(r"DELTA_NOT_NULL_CONSTRAINT_VIOLATED|NOT_NULL_ASSERT_VIOLATION")
_COLUMN: Final = re.compile(r"(?:for column|non-nullable field):\s*`?([\w.]+)`?", re.IGNORECASE)
PARTITION_CHECK: Final = "lakeward_partition_"
"""How the names of checks begin that a branch has for its partition columns."""
_PARTITION: Final = re.compile(
    rf"CHECK constraint {PARTITION_CHECK}.*?violated by row with values:\s*- (.*?) : (\w*)",
    re.DOTALL | re.IGNORECASE,
)
_MISFIT: Final = re.compile(
    r"\[(INCOMPATIBLE_DATA_FOR_TABLE|INSERT_COLUMN_ARITY_MISMATCH|DELTA_FAILED_TO_MERGE_FIELDS"
    r"|CAST_OVERFLOW_IN_TABLE_INSERT|CAST_INVALID_INPUT|DELTA_INSERT_COLUMN_ARITY_MISMATCH)"
)

_RUN: Final = ("eagerlyExecute", "commandExecuted", "sideEffectResult", "CommandExec")
"""Parts of the names of methods that run a statement."""
_ANALYSED: Final = ("QueryExecution.assertAnalyzed", "parsePlan", "ParseDriver", "SparkSqlParser")
"""Parts of the names of methods that parse and analyse a statement, before it runs."""


class NotRun(Exception):
    """Spark refused a statement in its analysis, so that nothing has changed.

    Attributes:
        error: The error of Spark.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def analysis_error(error: BaseException) -> Exception | None:
    """Return the error as Spark's `AnalysisException`; None if it is not one.

    For some errors of Delta, pyspark fails to find the text and raises Java's error instead.
    """
    kind = pyspark("errors").AnalysisException
    if isinstance(error, kind):
        return error
    origin = error.__context__ if hasattr(error.__context__, "java_exception") else error
    java = getattr(origin, "java_exception", None)
    if java is None or not str(java.getClass().getName()).endswith("AnalysisException"):
        return None
    made: Any = kind(str(java.getMessage()))
    # As pyspark calls it in the errors that it makes.
    made._stackTrace = str(origin)
    return cast(Exception, made)


def was_not_run(error: Exception) -> bool:
    """Whether Spark raised an error before it ran the statement; False if that is not certain."""
    trace = str(getattr(error, "_stackTrace", ""))
    analysed = any(method in trace for method in _ANALYSED)
    return analysed and not any(method in trace for method in _RUN)


def first_line(error: Exception) -> str:
    """Return the first line of an error's text that is not empty."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line), type(error).__name__)


def translated(error: Exception, table: str) -> LakewardError | None:
    """Return Lakeward's error for one of Spark; None if it is not about rows of the table."""
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
    partition = _PARTITION.search(said)
    if partition is not None:
        column, value = partition.groups()
        what = f"Column {column} partitions {table} and has the value {value!r}, which readers take"
        hint = "Write null or another value, or do not partition by the column."
        what += " for a missing value."
        return SchemaMismatch(what, hint=hint, table=table, column=column)
    misfit = _MISFIT.search(said)
    if misfit is not None:
        what = f"The rows do not fit table {table}: {first_line(error)}"
        return SchemaMismatch(what, hint="Nothing was committed.", table=table)
    return None
