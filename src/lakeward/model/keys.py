"""Conditions for the rows that may have certain keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lakeward.model.expressions.nodes import And, Column, Compare, Expression, Literal, Or
from lakeward.model.file import DataFile
from lakeward.model.types import Field
from lakeward.model.values import Value

_FILES: Final = 1000
"""With more files than that, a condition for each of them costs more than it saves."""


def keys_of(files: Sequence[DataFile], key: Sequence[Field]) -> Expression | None:
    """A condition for all rows that may have a key of these files; None for every row."""
    if len(files) > _FILES:
        return None
    each = [between({f: file_bounds(file, f) for f in key}) for file in files]
    known = [condition for condition in each if condition is not None]
    if len(known) < len(each):
        return None
    return known[0] if len(known) == 1 else Or(tuple(known))


def between(bounds: Mapping[Field, tuple[Value, Value] | None]) -> Expression | None:
    """A condition that fields are between their known bounds; None for every row."""
    terms: list[Expression] = []
    for field, known in bounds.items():
        if known is not None:
            low, high = (Literal(value, field.type) for value in known)
            terms += [Compare(">=", Column(field), low), Compare("<=", Column(field), high)]
    return And(tuple(terms)) if terms else None


def file_bounds(file: DataFile, field: Field) -> tuple[Value, Value] | None:
    """The outer bounds of a field in a file; None where they are not known."""
    if field.id in file.partition:
        low = high = file.partition[field.id]
    elif file.stats is not None:
        low, high = file.stats.minimum.get(field.id), file.stats.maximum.get(field.id)
    else:
        return None
    return None if low is None or high is None else (low, high)
