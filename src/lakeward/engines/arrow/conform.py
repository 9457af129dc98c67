"""Converts data to a table's schema, and checks it.

Data must have the same columns, types that convert without loss, and no nulls where values are
required. Data that does not fit raises a `SchemaMismatch` or a `ConstraintViolation` with the
column and the reason, before anything is written.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.fit import fitted, may_lack
from lakeward.engines.arrow.origin import place
from lakeward.engines.arrow.transform import transformed
from lakeward.errors import ConstraintViolation, SchemaMismatch
from lakeward.model.constraints import lenient_ids, loosened
from lakeward.model.definition import Definition, known
from lakeward.model.derived import Derived
from lakeward.model.expressions.nodes import columns_in
from lakeward.model.generated import expressions, generated_ids
from lakeward.model.schema import Schema
from lakeward.model.types import Field, ListOf, MapOf, Struct, Type
from lakeward.model.values import from_neutral

_SAMPLE: Final = 5


def conform(data: pa.Table, schema: Schema, table: str) -> pa.Table:
    """Return the data in the table's schema and order of columns; raise if it does not fit."""
    target = schema.arrow
    same = data.schema.equals(target, check_metadata=False)
    if same:
        columns = data.columns
    else:
        _check_names(data.schema, schema, table)
        columns = [_column(data, field, target.field(i), table) for i, field in enumerate(schema)]
    for field, column in zip(schema.fields, columns, strict=True):
        if same:
            _check_sound(field, column, table)
        try:
            check_required(field, column, table)
        except ConstraintViolation as error:
            raise _located(error, data.schema) from None
    if same and data.schema.equals(target, check_metadata=True):
        return data
    if not same:
        columns = [c.cast(f.type) for c, f in zip(columns, target, strict=True)]
    return pa.Table.from_arrays(columns, schema=target)


def completed(
    data: pa.Table, definition: Definition, table: str, *, trusted: bool = False
) -> pa.Table:
    """Return the data in the table's schema, as `conform` does, with its generated columns.

    Generated columns that the data lacks are computed; those that it has are checked, unless the
    rows are read from the table (`trusted`). Identity columns that the data lacks are null, and
    required columns whose rows are quarantined (`lenient_ids`) may be.
    """
    schema = definition.schema
    if known(definition, _is_plain):
        return conform(data, schema, table)
    if lenient_ids(definition):
        rows = completed(data, loosened(definition), table, trusted=trusted)
        return pa.Table.from_arrays(rows.columns, schema=schema.arrow)
    if definition.identity:
        # Their values are given out where rows are written, or are those that rows have.
        loose = replace(definition, schema=_loose(schema, frozenset(definition.identity)))
        rows = completed(data, replace(loose, identity={}), table, trusted=trusted)
        return pa.Table.from_arrays(rows.columns, schema=schema.arrow)
    generated, given = generated_ids(definition), set(data.schema.names)
    absent = frozenset(i for i in generated if schema.by_id[i].name not in given)
    rows = conform(data, _without(schema, absent), table)
    if trusted and not absent:
        return rows
    found: dict[int, pa.ChunkedArray] = {}
    for own_id in sorted(generated):
        values = _generated(rows, own_id, definition, table)
        if own_id not in absent:
            _check_generated(rows, values, own_id, definition, table)
            continue
        check_required(schema.by_id[own_id], values, table)
        found[own_id] = values
    columns = [found[f.id] if f.id in found else rows.column(f.name) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema.arrow)


def _is_plain(definition: Definition) -> bool:
    """Whether no column is generated, counted (identity) or quarantined if its value is missing."""
    return not (generated_ids(definition) or definition.identity or lenient_ids(definition))


def _generated(rows: pa.Table, own_id: int, definition: Definition, table: str) -> pa.ChunkedArray:
    if own_id in definition.derived:
        return derived_values(rows, definition.derived[own_id], definition, table)
    # Few tables have such columns, and the expression modules take time to load.
    from lakeward.engines.arrow.expression import computed

    expression = expressions(definition)[own_id]
    name = definition.schema.by_id[own_id].name
    return computed(rows, {name: expression}, f"Column {name} of {table}")[name]


def derived_values(
    rows: pa.Table, derived: Derived, definition: Definition, table: str
) -> pa.ChunkedArray:
    """Compute the derived values of a column; raise `SchemaMismatch` for a value that has none."""
    source = definition.schema.by_id[derived.source]
    try:
        found = transformed(derived.transform, source.type, rows.column(source.name))
    except ValueError as error:
        term = derived.transform.of(source.name)
        what = f"Column {source.name} of {table} has {error}, so that {term} has no value."
        hint = "Write another value, or do not partition by the column."
        raise SchemaMismatch(what, hint=hint, table=table, column=source.name) from error
    return pa.chunked_array([found])


def _check_names(given: pa.Schema, schema: Schema, table: str) -> None:
    duplicates = sorted({n for n in given.names if given.names.count(n) > 1})
    if duplicates:
        what = f"The data for {table} has the column {duplicates[0]!r} more than once."
        raise SchemaMismatch(what, hint="Rename one of them.", table=table, columns=duplicates)
    extra = [n for n in given.names if n not in schema.by_name]
    given_names = set(given.names)
    missing = [f.name for f in schema if f.name not in given_names and not may_lack(f)]
    if not extra and not missing:
        return
    parts = []
    if missing:
        parts.append(f"lacks {_names(missing)}")
    if extra:
        parts.append(f"has {_names(extra)}, which the table does not have")
    hint = f"The table's columns are {', '.join(schema.names)}."
    lowered = {name.lower(): name for name in missing}
    near = (
        [lowered[n] for n in difflib.get_close_matches(extra[0].lower(), lowered, 1)]
        if extra
        else []
    )
    if near:
        hint = f"Did you mean {near[0]!r} by {extra[0]!r}? {hint}"
    elif missing and not extra:
        hint = f"{hint} Give each of them, with nulls where there are no values."
    what = f"The data for {table} {' and '.join(parts)}."
    raise SchemaMismatch(what, hint=hint, table=table, missing=missing, extra=extra)


def _column(data: pa.Table, field: Field, target: pa.Field, table: str) -> pa.ChunkedArray:
    position = data.schema.get_field_index(field.name)
    if position < 0:
        value = from_neutral(field.type, field.default)
        scalar = pa.scalar(value, target.type)
        return pa.chunked_array([pa.repeat(scalar, data.num_rows)])
    column = data.column(position)
    _check_sound(field, column, table)
    if column.type.equals(target.type):
        return column
    return fitted(column, field, nullable(target.type), table, data.schema)


def _check_sound(field: Field, column: pa.ChunkedArray, table: str) -> None:
    """Raise `SchemaMismatch` for damaged arrays: invalid text, offsets out of range."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        what = f"Column {field.name} of {table} is damaged in the data: {error}."
        hint = "Whatever made the data has a fault."
        raise SchemaMismatch(what, hint=hint, table=table, column=field.name) from error


def _names(names: list[str]) -> str:
    shown = ", ".join(repr(n) for n in names[:10])
    return f"column{'s' if len(names) > 1 else ''} {shown}"


def check_required(field: Field, column: pa.ChunkedArray, table: str) -> None:
    """Raise `ConstraintViolation` if a value is null that the field, or a part of it, requires.

    A part is required only where the value that contains it is not null.
    """
    if not field.nullable and column.null_count:
        raise _violation(field.name, column, _rows(len(column)), table)
    if isinstance(field.type, Struct | ListOf | MapOf) and _demands(field.type) and len(column):
        values = column.combine_chunks()
        _check_parts(field.type, field.name, values, _rows(len(values)), table)


def nullable(source: pa.DataType) -> pa.DataType:
    """Return the type with every nested part nullable."""
    types = pa.types
    if types.is_struct(source):
        return pa.struct([_nullable_field(f) for f in source])
    if types.is_list(source):
        return pa.list_(_nullable_field(source.value_field))
    if types.is_map(source):
        return pa.map_(source.key_field, _nullable_field(source.item_field))
    return source


def _nullable_field(source: pa.Field) -> pa.Field:
    return pa.field(source.name, nullable(source.type), nullable=True, metadata=source.metadata)


def _demands(kind: Type) -> bool:
    """Whether a nested part of the type is required."""
    return any(not part.nullable or _demands(part.type) for part in _parts(kind))


def _parts(kind: Type) -> tuple[Field, ...]:
    match kind:
        case Struct(fields):
            return fields
        case ListOf(element):
            return (element,)
        case MapOf(_, value):
            # Arrow itself has no map with a missing key.
            return (value,)
        case _:
            return ()


def _check_parts(kind: Type, path: str, values: pa.Array, rows: pa.Array, table: str) -> None:
    """Check the nested parts of values; `rows` has the number of the row for each value."""
    match kind:
        case Struct(fields):
            there = values.is_valid()
            values, rows = values.filter(there), rows.filter(there)
            for part in fields:
                _check(part, f"{path}.{part.name}", pc.struct_field(values, part.name), rows, table)
        case ListOf(element):
            _check(element, f"{path}.{element.name}", *_flat(values, rows), table)
        case MapOf(_, value):
            entries, of_row = _flat(values.cast(_as_list(values.type)), rows)
            inner = pc.struct_field(entries, "value")
            _check(value, f"{path}.{value.name}", inner, of_row, table)
        case _:
            pass


def _check(part: Field, path: str, values: pa.Array, rows: pa.Array, table: str) -> None:
    if not part.nullable and values.null_count:
        raise _violation(path, values, rows, table)
    if _demands(part.type):
        _check_parts(part.type, path, values, rows, table)


def _flat(lists: pa.Array, rows: pa.Array) -> tuple[pa.Array, pa.Array]:
    return pc.list_flatten(lists), rows.take(pc.list_parent_indices(lists))


def _as_list(kind: pa.MapType) -> pa.DataType:
    """Return the type of a map's entries as a list, because Arrow's list functions take no maps."""
    entry = pa.struct([pa.field("key", kind.key_type), pa.field("value", nullable(kind.item_type))])
    return pa.list_(pa.field("entries", entry))


def _rows(count: int) -> pa.Array:
    return pa.array(range(count), pa.int64())


def _violation(path: str, values: pa.Array, rows: pa.Array, table: str) -> ConstraintViolation:
    count = values.null_count
    missing = "1 value is" if count == 1 else f"{count} values are"
    what = f"Column {path} of {table} is required, and {missing} missing."
    where = rows.filter(values.is_null()).slice(0, _SAMPLE).to_pylist()
    return ConstraintViolation(
        what,
        hint="Nothing was written.",
        table=table,
        constraint=f"{path} is not null",
        column=path,
        count=count,
        sample=[{"row": row} for row in where],
    )


def _located(error: ConstraintViolation, given: pa.Schema) -> ConstraintViolation:
    """Return the error with row numbers of the whole data, or of the file they come from."""
    places = [place(given, found["row"]) for found in error.sample]
    hint = f"The first is in {places[0][0]}. Nothing was written."
    facts = {**error.facts, "sample": [facts for _, facts in places]}
    return ConstraintViolation(error.what, hint=hint, **facts)


def _check_generated(
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
    derived = definition.derived.get(own_id)
    if derived is None:
        term = definition.computed[own_id]
        source = next((c.field for c in columns_in(expressions(definition)[own_id])), column)
    else:
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
def _loose(schema: Schema, ids: frozenset[int]) -> Schema:
    """Return the schema with the columns of some ids nullable and optional."""
    fields = (replace(f, nullable=True, optional=True) if f.id in ids else f for f in schema)
    return Schema(tuple(fields), schema.last_id)


@lru_cache(maxsize=256)
def _without(schema: Schema, absent: frozenset[int]) -> Schema:
    return Schema(tuple(f for f in schema.fields if f.id not in absent), schema.last_id)
