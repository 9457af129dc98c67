"""Splits rows by partition values, and names the directories of partitions.

Some readers take a column's value from its directory, and Delta reads an empty text as null. A
value that they would misread is refused. Hidden partition values are no columns, so no reader takes
them from a directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

import pyarrow as pa

from lakeward.engines.arrow.conform import derived_values
from lakeward.engines.arrow.values import neutral_values
from lakeward.errors import SchemaMismatch
from lakeward.model.calendar import DAY, FIRST_FOUR_DIGITS, LAST_DAY
from lakeward.model.definition import Definition
from lakeward.model.derived import Derived
from lakeward.model.transform import value_text
from lakeward.model.types import Field, Primitive
from lakeward.model.values import Value

_SAMPLE: Final = 5


NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
NULL_HIDDEN: Final = "null"
_LONGEST_NAME: Final = 255
_SHOWN: Final = 60


def partitioned(
    data: pa.Table, definition: Definition, table: str
) -> Iterator[tuple[Mapping[int, Value], pa.Table]]:
    """Yield partition values by field id, and their rows.

    The rows lack the partition columns, unless data files contain them.
    """
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
    """Return the directory of a partition, `a=1/b=x/`, percent-encoded for paths."""
    return "".join(
        f"{_name(definition.field(i), value, definition.derived.get(i))}/"
        for i, value in values.items()
    )


def check_partition(field: Field, value: Value, table: str) -> None:
    """Raise `SchemaMismatch` for a value that readers of directories would misread."""
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
    """Raise `SchemaMismatch` for a year with more than four digits, which few readers support."""
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
