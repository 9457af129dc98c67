"""What Spark finds out about rows, so that the driver gets no more than the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lakeward.engines.spark.extra import pyspark
from lakeward.errors import UnsupportedFeature
from lakeward.model.evolution.paths import parts_of
from lakeward.model.quoting import identifier
from lakeward.model.schema import Schema
from lakeward.model.types import Field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ID: Final = "parquet.field.id"
"""The key of a column's field id in its metadata, as Spark's Parquet reader knows it."""


def write_difference(
    spark: SparkSession, before: str, after: str, target: str, columns: Sequence[str]
) -> None:
    """Append the rows by which two Delta tables differ to a third, each with its `_change_type`."""
    old, new = _comparable(spark, before, columns), _comparable(spark, after, columns)
    gone, come = _surplus(old, new, "delete"), _surplus(new, old, "insert")
    rows = _with_maps(gone.unionByName(come), spark.read.format("delta").load(after))
    rows.write.format("delta").mode("append").save(target)


def _comparable(spark: SparkSession, place: str, columns: Sequence[str]) -> DataFrame:
    """A table's rows; maps, which Spark does not compare, as sorted lists of their entries."""
    functions, types = pyspark("sql.functions"), pyspark("sql.types")
    rows = spark.read.format("delta").load(place)
    chosen = []
    for name in columns:
        column, kind = functions.col(identifier(name)), rows.schema[name].dataType
        if isinstance(kind, types.MapType):
            column = functions.array_sort(functions.map_entries(column)).alias(name)
            kind = kind.valueType
        if _holds_map(kind):
            what = f"Column {name} holds maps inside other values, whose changes cannot be told."
            hint = "Commit each statement by itself."
            raise UnsupportedFeature(what, hint=hint, column=name)
        chosen.append(column)
    return rows.select(*chosen)


def _surplus(more: DataFrame, less: DataFrame, kind: str) -> DataFrame:
    return more.exceptAll(less).withColumn("_change_type", pyspark("sql.functions").lit(kind))


def _with_maps(rows: DataFrame, like: DataFrame) -> DataFrame:
    functions, types = pyspark("sql.functions"), pyspark("sql.types")
    for field in like.schema.fields:
        if isinstance(field.dataType, types.MapType):
            column = functions.map_from_entries(functions.col(identifier(field.name)))
            rows = rows.withColumn(field.name, column)
    return rows


def _holds_map(kind: object) -> bool:
    types = pyspark("sql.types")
    if isinstance(kind, types.StructType):
        return any(_holds_map(f.dataType) for f in kind.fields)
    if isinstance(kind, types.ArrayType):
        return _holds_map(kind.elementType)
    return isinstance(kind, types.MapType)


def load_by_id(spark: SparkSession, addresses: Sequence[str], schema: Schema) -> DataFrame:
    """Read Parquet files whose columns are found by field ids; missing columns are null."""
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    types = pyspark("sql.pandas.types")
    plain = types.from_arrow_schema(schema.to_arrow(), prefer_timestamp_ntz=True)
    return spark.read.schema(_with_ids(plain, schema.fields)).parquet(*addresses)


def _with_ids(kind: Any, fields: Sequence[Field]) -> Any:
    """Return a Spark type whose members have the ids of fields."""
    types = pyspark("sql.types")
    if isinstance(kind, types.StructType):
        return types.StructType(
            [
                types.StructField(
                    own.name, _with_ids(own.dataType, parts_of(f.type)), True, {_ID: f.id}
                )
                for own, f in zip(kind.fields, fields, strict=True)
            ]
        )
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(_with_ids(kind.elementType, parts_of(fields[0].type)), True)
    if isinstance(kind, types.MapType):
        key, value = (parts_of(f.type) for f in fields)
        return types.MapType(_with_ids(kind.keyType, key), _with_ids(kind.valueType, value), True)
    return kind


def violations(rows: DataFrame, checks: Mapping[str, str]) -> dict[str, int]:
    """How many rows violate each check, of those that any row violates.

    A row violates a check unless the expression is true for it: unknown is not true.
    """
    functions = pyspark("sql.functions")
    names = list(checks)
    counts = [functions.expr(f"count_if({_violates(checks[name])})") for name in names]
    found = rows.agg(*counts).collect()[0]
    return {name: int(found[n]) for n, name in enumerate(names) if found[n]}


def sample(rows: DataFrame, check: str, count: int) -> list[dict[str, Any]]:
    """Some rows that violate a check."""
    return [row.asDict(recursive=True) for row in rows.where(_violates(check)).take(count)]


def _violates(check: str) -> str:
    return f"NOT coalesce(({check}), false)"
