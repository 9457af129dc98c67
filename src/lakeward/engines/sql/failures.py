"""Errors of DataFusion as errors of Lakeward, with the cause that DataFusion found."""

from __future__ import annotations

import re
from typing import Final

from lakeward.errors import InvalidInput, LakewardError, StorageError

_SHOWN: Final = 600
_PREFIX: Final = re.compile(r"^(DataFusion error: )?((?:[A-Z][A-Za-z]+ ?)+ error: )*")


def refused(error: Exception) -> LakewardError:
    """Return the error for a query that cannot be planned."""
    if isinstance(error, LakewardError):
        return error
    what = f"DataFusion cannot plan the query: {_said(error)}."
    return InvalidInput(what, hint="lakeward show TABLE lists the columns of a table.")


def failed(error: Exception) -> LakewardError:
    """Return the error for a query that failed while it ran."""
    if isinstance(error, LakewardError):
        return error
    said = _said(error)
    if "ObjectStore" in said or "No such file" in said:
        return StorageError(f"A file of the query cannot be read: {said}.")
    what = f"DataFusion could not run the query: {said}."
    return InvalidInput(what)


def _said(error: Exception) -> str:
    """Return the first line of the innermost cause."""
    cause = re.split(r"\ncaused by\n", str(error).strip())[-1]
    first = cause.strip().partition("\n")[0]
    return _PREFIX.sub("", first)[:_SHOWN].rstrip(". ")
