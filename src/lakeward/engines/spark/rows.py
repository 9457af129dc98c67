"""Computations on rows that Spark runs, so that the driver gets only the results."""

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
"""The key of a column's field id in its metadata, for Spark's Parquet reader."""


def write_difference(
    spark: SparkSession, before: str, after: str, target: str, columns: Sequence[str]
) -> None:
    """Append to the Delta table `target` the rows by which `before` and `after` differ.

    The column `_change_type` of a row is `delete` or `insert`.
    """
    old, new = _comparable(spark, before, columns), _comparable(spark, after, columns)
    gone, come = _surplus(old, new, "delete"), _surplus(new, old, "insert")
    rows = _restored(gone.unionByName(come), spark.read.format("delta").load(after))
    rows.write.format("delta").mode("append").save(target)


def _comparable(spark: SparkSession, place: str, columns: Sequence[str]) -> DataFrame:
    """Return a table's rows in a form that Spark can compare.

    Maps are sorted lists of entries. Floats are texts, because Spark would take -0.0 for 0.0.
    Raise `UnsupportedFeature` for a map inside another value.
    """
    functions, types = pyspark("sql.functions"), pyspark("sql.types")
    rows = spark.read.format("delta").load(place)
    chosen = []
    for name in columns:
        column, kind = functions.col(identifier(name)), rows.schema[name].dataType
        if isinstance(kind, types.MapType):
            column = functions.array_sort(functions.map_entries(column))
            kind = _entries(kind)
        if _holds_map(kind):
            what = f"Column {name} holds maps inside other values, whose changes cannot be told."
            hint = "Commit each statement by itself."
            raise UnsupportedFeature(what, hint=hint, column=name)
        if _holds_float(kind):
            column = column.cast(_nullable(kind, as_text=True))
        chosen.append(column.alias(name))
    return rows.select(*chosen)


def _surplus(more: DataFrame, less: DataFrame, kind: str) -> DataFrame:
    return more.exceptAll(less).withColumn("_change_type", pyspark("sql.functions").lit(kind))


def _restored(rows: DataFrame, like: DataFrame) -> DataFrame:
    """Return rows that `_comparable` changed with the types of another table."""
    functions, types = pyspark("sql.functions"), pyspark("sql.types")
    for field in like.schema.fields:
        column, kind = functions.col(identifier(field.name)), field.dataType
        is_map = isinstance(kind, types.MapType)
        kind = _entries(kind) if is_map else kind
        if _holds_float(kind):
            column = column.cast(_nullable(kind, as_text=False))
        if is_map:
            column = functions.map_from_entries(column)
        if is_map or _holds_float(kind):
            rows = rows.withColumn(field.name, column)
    return rows


def _entries(kind: Any) -> Any:
    """Return the type of the list of a map's entries."""
    types = pyspark("sql.types")
    key = types.StructField("key", kind.keyType, False)
    value = types.StructField("value", kind.valueType, kind.valueContainsNull)
    return types.ArrayType(types.StructType([key, value]), False)


def _nullable(kind: Any, *, as_text: bool) -> Any:
    """Return a type whose parts are all nullable; with texts instead of floats if `as_text`."""
    types = pyspark("sql.types")
    if isinstance(kind, types.StructType):
        return types.StructType(
            [
                types.StructField(f.name, _nullable(f.dataType, as_text=as_text), True)
                for f in kind.fields
            ]
        )
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(_nullable(kind.elementType, as_text=as_text), True)
    is_float = isinstance(kind, types.FloatType | types.DoubleType)
    return types.StringType() if as_text and is_float else kind


def _holds_float(kind: Any) -> bool:
    return bool(_nullable(kind, as_text=True) != _nullable(kind, as_text=False))


def _holds_map(kind: object) -> bool:
    types = pyspark("sql.types")
    if isinstance(kind, types.StructType):
        return any(_holds_map(f.dataType) for f in kind.fields)
    if isinstance(kind, types.ArrayType):
        return _holds_map(kind.elementType)
    return isinstance(kind, types.MapType)


def load_by_id(spark: SparkSession, addresses: Sequence[str], schema: Schema) -> DataFrame:
    """Read Parquet files, with columns matched by field id; columns missing in a file are null."""
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    types = pyspark("sql.pandas.types")
    plain = types.from_arrow_schema(schema.to_arrow(), prefer_timestamp_ntz=True)
    return spark.read.schema(_with_ids(plain, schema.fields)).parquet(*addresses)


def _with_ids(kind: Any, fields: Sequence[Field]) -> Any:
    """Return the Spark type `kind` with the ids of `fields` in the metadata of its members."""
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


def no_rows(spark: SparkSession, columns: Any) -> DataFrame:
    """Return a frame without rows, with the columns of an Arrow schema."""
    types = pyspark("sql.pandas.types")
    return spark.createDataFrame([], types.from_arrow_schema(columns, prefer_timestamp_ntz=True))


def violations(rows: DataFrame, checks: Mapping[str, str]) -> dict[str, int]:
    """Return how many rows violate each check, for checks that at least one row violates.

    A row violates a check unless the expression is true for the row: unknown is not true.
    """
    functions = pyspark("sql.functions")
    names = list(checks)
    counts = [functions.expr(f"count_if({_violates(checks[name])})") for name in names]
    found = rows.agg(*counts).collect()[0]
    return {name: int(found[n]) for n, name in enumerate(names) if found[n]}


def sample(rows: DataFrame, check: str, count: int) -> list[dict[str, Any]]:
    """Return up to `count` rows that violate a check."""
    return [row.asDict(recursive=True) for row in rows.where(_violates(check)).take(count)]


def _violates(check: str) -> str:
    return f"NOT coalesce(({check}), false)"
