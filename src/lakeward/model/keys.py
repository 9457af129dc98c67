"""Conditions that select the rows that may have certain keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lakeward.model.expressions.nodes import And, Column, Compare, Expression, Literal, Or
from lakeward.model.file import DataFile
from lakeward.model.types import Field
from lakeward.model.values import Value

_FILES: Final = 1000
"""With more files than this, a condition for each of them costs more than it saves."""


def keys_of(files: Sequence[DataFile], key: Sequence[Field]) -> Expression | None:
    """Return a condition that is true of all rows with a key of these files; None for all rows."""
    if len(files) > _FILES:
        return None
    each = [between({f: file_bounds(file, f) for f in key}) for file in files]
    known = [condition for condition in each if condition is not None]
    if len(known) < len(each):
        return None
    return known[0] if len(known) == 1 else Or(tuple(known))


def between(bounds: Mapping[Field, tuple[Value, Value] | None]) -> Expression | None:
    """Return a condition that fields are between their known bounds; None if none is known."""
    terms: list[Expression] = []
    for field, known in bounds.items():
        if known is not None:
            low, high = (Literal(value, field.type) for value in known)
            terms += [Compare(">=", Column(field), low), Compare("<=", Column(field), high)]
    return And(tuple(terms)) if terms else None


def file_bounds(file: DataFile, field: Field) -> tuple[Value, Value] | None:
    """Return the outer bounds of a field in a file; None if one of them is unknown."""
    if field.id in file.partition:
        low = high = file.partition[field.id]
    elif file.stats is not None:
        low, high = file.stats.minimum.get(field.id), file.stats.maximum.get(field.id)
    else:
        return None
    return None if low is None or high is None else (low, high)
