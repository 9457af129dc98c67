"""Partitions: rows split by their values, and the directories that are named for them.

Some readers take a column's value from its directory and not from the log, and Delta takes an empty
text for a missing value. A value that they would read as another one is refused. Hidden partition
values are no columns: nobody reads them from a directory, which only people look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.conform import check_required, conform
from lakeward.engines.arrow.transform import transformed
from lakeward.engines.arrow.values import neutral_values
from lakeward.errors import ConstraintViolation, SchemaMismatch
from lakeward.model.calendar import DAY, FIRST_FOUR_DIGITS, LAST_DAY
from lakeward.model.definition import Definition
from lakeward.model.derived import Derived
from lakeward.model.schema import Schema
from lakeward.model.transform import value_text
from lakeward.model.types import Field, Primitive
from lakeward.model.values import Value

_SAMPLE: Final = 5


def completed(
    data: pa.Table, definition: Definition, table: str, *, trusted: bool = False
) -> pa.Table:
    """Return the data in the table's schema, as `conform` does, with its generated columns.

    Those that are absent are computed, those that are given are checked, unless the rows are the
    table's own (`trusted`).
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
    """Compute what is derived from a column, or raise `SchemaMismatch` where a value has none."""
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


NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
NULL_HIDDEN: Final = "null"
_LONGEST_NAME: Final = 255
_SHOWN: Final = 60


def partitioned(
    data: pa.Table, definition: Definition, table: str
) -> Iterator[tuple[Mapping[int, Value], pa.Table]]:
    """Split rows by partition values, without the partition columns unless files hold them."""
    if not definition.partition_by:
        yield {}, data
        return
    fields = definition.partition_fields
    stored = [] if definition.whole_files else [f.name for f in fields if f.id > 0]
    rest = data.drop_columns(stored)
    # Under names of our own, so that no column's name is in the way.
    keys = [f"key_{abs(f.id)}_{f.id > 0}" for f in fields]
    rows = pa.table([_values(f, data, definition, table) for f in fields], names=keys)
    rows = rows.append_column("row", pa.array(range(data.num_rows), pa.int64()))
    groups = rows.group_by(keys, use_threads=False).aggregate([("row", "list")])
    columns = [_neutral(f, groups.column(k), table) for f, k in zip(fields, keys, strict=True)]
    for values, members in zip(zip(*columns, strict=True), groups["row_list"], strict=True):
        by_id = {f.id: v for f, v in zip(fields, values, strict=True)}
        yield by_id, rest.take(members.values)


def partition_directory(values: Mapping[int, Value], definition: Definition) -> str:
    """The directory of a partition, `a=1/b=x/`, quoted for paths."""
    return "".join(
        f"{_name(definition.field(i), value, definition.derived.get(i))}/"
        for i, value in values.items()
    )


def check_partition(field: Field, value: Value, table: str) -> None:
    """Raise `SchemaMismatch` for a value that readers of directories would take for another one."""
    if field.id > 0 and value in ("", NULL_PARTITION):
        reason = "readers take for a missing value"
    elif len(_name(field, value, None)) > _LONGEST_NAME:
        reason = "is too long to name a directory"
    else:
        return
    shown = repr(value)[:_SHOWN]
    what = f"Column {field.name} partitions {table} and has the value {shown}, which {reason}."
    hint = "Write null or another value, or do not partition by the column."
    raise SchemaMismatch(what, hint=hint, table=table, column=field.name, value=shown)


def _values(field: Field, data: pa.Table, definition: Definition, table: str) -> pa.ChunkedArray:
    if field.id > 0:
        return data.column(field.name)
    return derived_values(data, definition.derived[field.id], definition, table)


def _name(field: Field, value: Value, derived: Derived | None) -> str:
    if value is None:
        text = NULL_PARTITION if field.id > 0 else NULL_HIDDEN
    elif derived is not None:
        text = derived.transform.text(field.type, value)
    else:
        text = value_text(field.type, value)
    return f"{quote(field.name, safe=' ')}={quote(text, safe=' ')}"


def _check_year(field: Field, value: Value, table: str) -> None:
    """Refuse a date whose year has more than four digits, which few readers understand."""
    if not isinstance(value, int) or not str(field.type).startswith(("date", "timestamp")):
        return
    days = value if field.type == Primitive("date") else value // DAY
    if not FIRST_FOUR_DIGITS <= days <= LAST_DAY:
        what = f"Column {field.name} partitions {table} and has a year with more than four digits."
        hint = "Write another value, or do not partition by the column."
        raise SchemaMismatch(what, hint=hint, table=table, column=field.name)


def _neutral(field: Field, values: pa.ChunkedArray, table: str) -> list[Value]:
    found = neutral_values(field.type, values)
    for value in found:
        _check_year(field, value, table)
        check_partition(field, value, table)
    return found
