"""The Arrow types of the values that the columns of a Parquet file store.

Arrow's own types, such as dictionaries and views, are only advice in a footer. Spark and Hive write
moments as INT96, without a zone: they mean UTC.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.engines.arrow.plain_types import plain_type

_MOMENT: Final = pa.timestamp("us", tz="UTC")


def schema_of(metadata: pq.FileMetaData, *, int96: bool = True) -> pa.Schema:
    """Return the schema of a file, with plain types, and with `int96` INT96 as moments in UTC."""
    old = {
        column.path.split(".")[0]
        for column in (metadata.schema.column(i) for i in range(metadata.num_columns))
        if int96 and column.physical_type == "INT96"
    }
    fields = [
        f.with_type(_moments(plain_type(f.type)) if f.name in old else plain_type(f.type))
        for f in metadata.schema.to_arrow_schema()
    ]
    return pa.schema(fields)


def _moments(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return _MOMENT
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_moments(kind.value_type)))
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(
            key.with_type(_moments(key.type)), item.with_type(_moments(item.type)), kind.keys_sorted
        )
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_moments(f.type)) for f in kind])
    return kind
