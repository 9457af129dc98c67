"""Partitions: rows split by their values, and the directories that are named for them.

Some readers take a partition's value from its directory and not from the log, and Delta takes an
empty text for a missing value. A value that they would read as another one is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

import pyarrow as pa

from lakeward.errors import SchemaMismatch
from lakeward.model.definition import Definition
from lakeward.model.schema import Schema
from lakeward.model.types import Field
from lakeward.model.values import Value, from_neutral, to_neutral

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
_LONGEST_NAME: Final = 255
_SHOWN: Final = 60


def partitioned(
    data: pa.Table, definition: Definition, table: str
) -> Iterator[tuple[Mapping[int, Value], pa.Table]]:
    """The data split by partition values, without the partition columns unless files hold them.

    Raises:
        SchemaMismatch: A value that cannot name a partition.
    """
    if not definition.partition_by:
        yield {}, data
        return
    schema = definition.schema
    fields = [schema.by_id[i] for i in definition.partition_by]
    rest = data if definition.whole_files else data.drop_columns([f.name for f in fields])
    # Under names of our own, so that no column's name is in the way.
    keys = [f"key_{f.id}" for f in fields]
    rows = data.select([f.name for f in fields]).rename_columns(keys)
    rows = rows.append_column("row", pa.array(range(data.num_rows), pa.int64()))
    groups = rows.group_by(keys, use_threads=False).aggregate([("row", "list")])
    columns = [_neutral(f, groups.column(k), table) for f, k in zip(fields, keys, strict=True)]
    for values, members in zip(zip(*columns, strict=True), groups["row_list"], strict=True):
        by_id = {f.id: v for f, v in zip(fields, values, strict=True)}
        yield by_id, rest.take(members.values)


def partition_directory(values: Mapping[int, Value], schema: Schema) -> str:
    """The directory of a partition, `a=1/b=x/`, with nothing in it that a path cannot hold."""
    return "".join(f"{_name(schema.by_id[i], value)}/" for i, value in values.items())


def check_partition(field: Field, value: Value, table: str) -> None:
    """Refuse a value that readers would take for another one.

    Raises:
        SchemaMismatch: It is such a value.
    """
    if value in ("", NULL_PARTITION):
        reason = "readers take for a missing value"
    elif len(_name(field, value)) > _LONGEST_NAME:
        reason = "is too long to name a directory"
    else:
        return
    shown = repr(value)[:_SHOWN]
    what = f"Column {field.name} partitions {table} and has the value {shown}, which {reason}."
    hint = "Write null or another value, or do not partition by the column."
    raise SchemaMismatch(what, hint=hint, table=table, column=field.name, value=shown)


def _name(field: Field, value: Value) -> str:
    text = NULL_PARTITION if value is None else str(from_neutral(field.type, value))
    return f"{quote(field.name, safe=' ')}={quote(text, safe=' ')}"


def _neutral(field: Field, values: pa.ChunkedArray, table: str) -> list[Value]:
    try:
        found = [to_neutral(field.type, v) for v in values.to_pylist()]
    except (OverflowError, ValueError) as error:
        what = f"Column {field.name} partitions {table} and has a value outside years 1 to 9999."
        hint = "Write another value, or do not partition by the column."
        raise SchemaMismatch(what, hint=hint, table=table, column=field.name) from error
    for value in found:
        check_partition(field, value, table)
    return found
