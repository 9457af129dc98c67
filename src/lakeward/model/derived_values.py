"""Whether a file's derived partition value agrees with the statistics of its source column.

Reads skip files by derived partition values, so a wrong value hides rows. Statistics often prove
the value without reading rows: the bounds of a column that is partitioned by day lie on one day.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Column, Compare, Expression, IsNull, Literal
from lakeward.model.expressions.projection import project
from lakeward.model.expressions.prune import Bounds, may_match
from lakeward.model.file import DataFile
from lakeward.model.keys import between
from lakeward.model.types import Field
from lakeward.model.values import Value


def agrees(file: DataFile, own_id: int, definition: Definition) -> bool | None:
    """Return whether a file's partition value under an id of `derived` is right; None if unknown.

    The definition is that of the version that added the file.
    """
    derived = definition.derived[own_id]
    source, target = definition.schema.by_id[derived.source], definition.field(own_id)
    value = file.partition[own_id]
    known = Bounds(value, value, file.rows if value is None else 0, file.rows)
    for condition in _true_of_some_row(file, source):
        implied = project(condition, derived, source, target)
        if implied is not None and not may_match(implied, lambda _: known):
            return False
    return True if _is_proven(file, own_id, definition) else None


def _true_of_some_row(file: DataFile, source: Field) -> Iterator[Expression]:
    """Yield conditions on the source column that at least one row of the file satisfies."""
    low, high, nulls = _bounds(file, source.id)
    if nulls:
        yield IsNull(Column(source))
    if low is None or high is None:
        return
    if low == high:
        yield Compare("=", Column(source), Literal(low, source.type))
    elif (found := between({source: (low, high)})) is not None:
        yield found


def _is_proven(file: DataFile, own_id: int, definition: Definition) -> bool:
    derived = definition.derived[own_id]
    kind = definition.schema.by_id[derived.source].type
    low, high, nulls = _bounds(file, derived.source)
    if file.rows == 0:
        return True
    if nulls is None or file.rows is None:
        return False
    expected: set[Value] = {derived.transform.apply(kind, None)} if nulls else set()
    if nulls < file.rows:
        if low is None or high is None or not (derived.transform.is_ordered or low == high):
            return False
        try:
            expected |= {derived.transform.apply(kind, bound) for bound in (low, high)}
        except (ArithmeticError, ValueError):
            return False
    return expected == {file.partition[own_id]}


def _bounds(file: DataFile, field_id: int) -> tuple[Value, Value, int | None]:
    """Return minimum, maximum and number of nulls of a column in a file; None for unknown ones."""
    if field_id in file.partition:
        value = file.partition[field_id]
        return value, value, file.rows if value is None else 0
    if file.stats is None:
        return None, None, None
    stats = file.stats
    return stats.minimum.get(field_id), stats.maximum.get(field_id), stats.nulls.get(field_id)
