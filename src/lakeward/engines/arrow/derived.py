"""Values that follow from a column: computed where data lacks them, checked where it has them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.conform import conform
from lakeward.engines.arrow.required import check_required
from lakeward.engines.arrow.transform import transformed
from lakeward.errors import ConstraintViolation, SchemaMismatch
from lakeward.model.definition import Definition
from lakeward.model.derived import Derived
from lakeward.model.schema import Schema

_SAMPLE: Final = 5


def completed(
    data: pa.Table, definition: Definition, table: str, *, trusted: bool = False
) -> pa.Table:
    """The data in the table's schema, as `conform` gives it, with its generated columns.

    Args:
        data: Rows; generated columns may be left out.
        definition: The table's.
        table: Its name, for errors.
        trusted: The rows are the table's own, so their generated values are not looked at.

    Raises:
        SchemaMismatch: A column is missing, unknown, or of a type that does not fit, or a value
            has nothing that could be derived from it.
        ConstraintViolation: A required column has missing values, or a generated one other values
            than follow from its source.
    """
    schema = definition.schema
    generated = {i: d for i, d in definition.derived.items() if i > 0}
    if not generated:
        return conform(data, schema, table)
    given = set(data.schema.names)
    absent = frozenset(i for i in generated if schema.by_id[i].name not in given)
    rows = conform(data, _without(schema, absent), table)
    if trusted and not absent:
        return rows
    found: dict[int, pa.ChunkedArray] = {}
    for own_id, derived in generated.items():
        values = derived_values(rows, derived, definition, table)
        if own_id not in absent:
            _check(rows, values, own_id, definition, table)
            continue
        check_required(schema.by_id[own_id], values, table)
        found[own_id] = values
    columns = [found[f.id] if f.id in found else rows.column(f.name) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema.arrow)


def derived_values(
    rows: pa.Table, derived: Derived, definition: Definition, table: str
) -> pa.ChunkedArray:
    """What follows from the rows' values of the source column.

    Raises:
        SchemaMismatch: A value has nothing that could be derived from it.
    """
    source = definition.schema.by_id[derived.source]
    try:
        found = transformed(derived.transform, source.type, rows.column(source.name))
    except ValueError as error:
        term = derived.transform.of(source.name)
        what = f"Column {source.name} of {table} has {error}, so that {term} has no value."
        hint = "Write another value, or do not partition by the column."
        raise SchemaMismatch(what, hint=hint, table=table, column=source.name) from error
    return pa.chunked_array([found])


def _check(
    rows: pa.Table, values: pa.ChunkedArray, own_id: int, definition: Definition, table: str
) -> None:
    column = definition.schema.by_id[own_id]
    given = rows.column(column.name)
    same = pc.fill_null(pc.equal(given, values), False)
    both_missing = pc.and_(pc.is_null(given), pc.is_null(values))
    wrong = pc.invert(pc.or_(same, both_missing))
    count = pc.sum(wrong).as_py() or 0
    if not count:
        return
    derived = definition.derived[own_id]
    source = definition.schema.by_id[derived.source]
    term = derived.transform.of(source.name)
    sample = _sample(rows, values, wrong, source.name, column.name)
    many = "1 row has" if count == 1 else f"{count} rows have"
    what = f"Column {column.name} of {table} is generated as {term}, and {many} another value."
    first = sample[0]
    hint = (
        f"Leave the column out: it is computed. In row {first['row']} it is {first[column.name]} "
        f"for {first[source.name]} and should be {first['expected']}."
    )
    raise ConstraintViolation(
        what,
        hint=hint,
        table=table,
        constraint=f"{column.name} = {term}",
        column=column.name,
        count=count,
        sample=sample,
    )


def _sample(
    rows: pa.Table, values: pa.ChunkedArray, wrong: pa.ChunkedArray, source: str, column: str
) -> list[dict[str, Any]]:
    where = pc.indices_nonzero(wrong).slice(0, _SAMPLE)
    found = zip(
        where.to_pylist(),
        rows.column(source).take(where).to_pylist(),
        rows.column(column).take(where).to_pylist(),
        values.take(where).to_pylist(),
        strict=True,
    )
    return [{"row": n, source: s, column: g, "expected": e} for n, s, g, e in found]


@lru_cache(maxsize=256)
def _without(schema: Schema, absent: frozenset[int]) -> Schema:
    return Schema(tuple(f for f in schema.fields if f.id not in absent), schema.last_id)
