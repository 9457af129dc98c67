"""Tables that Spark writes, with the features that no other writer has; odd values in all."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import lakeward as lw
from tests.foreign.corpus_delta import COLUMNS, FEW, every_value
from tests.foreign.language import DAY, Row
from tests.foreign.subject import Subject
from tests.foreign.values import DAY_ONE, STRUCT, random_value, to_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TYPES = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "list": "ARRAY<BIGINT>",
    "map": "MAP<STRING, BIGINT>",
    "structs": "ARRAY<STRUCT<a: BIGINT, b: STRING>>",
    STRUCT: "STRUCT<c: INT, s: STRING, f: DOUBLE, d: DATE>",
}
_NUMBERS = itertools.count(1)
_WIDE = {"int": "int64", "single": "double", "exact": "decimal(14,2)"}


class SparkWriter:
    """Writes one table by SQL and keeps account of its rows.

    Args:
        spark: A session with Delta and Iceberg.
        place: A directory of its own.
        columns: Kinds by name.
        format: `delta` or `iceberg`.
        pick: Chooses values.
    """

    def __init__(
        self,
        spark: SparkSession,
        place: Path,
        columns: dict[str, str],
        *,
        format: str = "delta",  # noqa: A002  as the lake calls it
        pick: random.Random,
    ) -> None:
        self.spark = spark
        self.columns = dict(columns)
        self.rows: list[Row] = []
        self._place = place
        self._format = format
        self._pick = pick
        self._files = 0
        self.catalog = ""
        self.name = f"delta.`{place}/table`"
        if format == "iceberg":
            # A catalog of its own: once used, it is not configured again.
            self.catalog = f"foreign_{next(_NUMBERS)}"
            setting = f"spark.sql.catalog.{self.catalog}"
            spark.conf.set(setting, "org.apache.iceberg.spark.SparkCatalog")
            spark.conf.set(f"{setting}.type", "hadoop")
            spark.conf.set(f"{setting}.warehouse", str(place.parent))
            self.name = f"{self.catalog}.{place.name}.`table`"

    def create(self, *, also: str = "", **properties: str) -> None:
        """Make the table.

        Args:
            also: What follows the columns, such as `PARTITIONED BY (part)`.
            **properties: Of the table, with `__` for a dot and `_` for a hyphen.
        """
        columns = ", ".join(f"`{n}` {spark_type(kind)}" for n, kind in self.columns.items())
        told = {k.replace("__", ".").replace("_", "-"): v for k, v in properties.items()}
        listed = ", ".join(f"'{k}' = '{v}'" for k, v in told.items()) or "'a' = 'b'"
        using = self._format
        self.sql(
            f"CREATE TABLE {self.name} ({columns}) USING {using} {also} TBLPROPERTIES ({listed})"
        )

    def sql(self, text: str) -> Any:
        """Run a statement."""
        return self.spark.sql(text)

    def alter(self, text: str) -> None:
        """Run an ALTER TABLE."""
        self.sql(f"ALTER TABLE {self.name} {text}")

    def fill(self) -> None:
        """Rows with every odd value, by one statement: statements of Spark take long."""
        self.insert(every_value(self.columns, self._pick))

    def insert(self, rows: list[Row]) -> None:
        """Add rows."""
        path = self._place / f"source_{self._files}.parquet"
        self._files += 1
        self._place.mkdir(parents=True, exist_ok=True)
        pq.write_table(to_arrow(rows, self.columns), path)
        names = ", ".join(f"`{n}`" for n in self.columns)
        self.sql(f"INSERT INTO {self.name} ({names}) SELECT {names} FROM parquet.`{path}`")
        self.rows += rows

    def new_rows(self, first: int, count: int) -> list[Row]:
        """Rows of chance, numbered from `first`."""
        return [
            {n: random_value(kind, self._pick) for n, kind in self.columns.items()}
            | {"id": first + i}
            for i in range(count)
        ]

    def delete(self, ids: list[int]) -> None:
        """Delete rows."""
        self.sql(f"DELETE FROM {self.name} WHERE id IN ({', '.join(map(str, ids))})")
        self.rows = [r for r in self.rows if r["id"] not in ids]

    def clear(self, ids: list[int], name: str) -> None:
        """Set a column of some rows to null."""
        where = f"id IN ({', '.join(map(str, ids))})"
        self.sql(f"UPDATE {self.name} SET `{name}` = NULL WHERE {where}")
        self.rows = [{**r, name: None} if r["id"] in ids else r for r in self.rows]

    def rename(self, names: dict[str, str]) -> None:
        """Give columns other names; two may change theirs with each other."""
        for name in names:
            self.alter(f"RENAME COLUMN `{name}` TO `{name}__`")
        for name, new in names.items():
            self.alter(f"RENAME COLUMN `{name}__` TO `{new}`")
        self.columns = {names.get(n, n): kind for n, kind in self.columns.items()}
        self.rows = [{names.get(n, n): v for n, v in r.items()} for r in self.rows]

    def again(self, name: str) -> None:
        """Drop a column and add one of its name."""
        kind = self.columns.pop(name)
        self.alter(f"DROP COLUMN `{name}`")
        self.alter(f"ADD COLUMN `{name}` {spark_type(kind)}")
        self.columns[name] = kind
        self.rows = [{**r, name: None} for r in self.rows]

    def subject(self, name: str, *, writable: bool = True) -> Subject:
        """The table to be examined; Spark itself reads it afterwards."""
        location = str(self._place / "table")

        def reader(table: lw.Table) -> pa.Table:
            where = table.location if self._format == "delta" else table.metadata_location
            return self.spark.read.format(self._format).load(where).toArrow()

        return Subject(
            f"{name} {self.columns}",
            self._format,
            location,
            self.columns,
            self.rows,
            writable=writable,
            reader=reader,
        )


def spark_type(kind: str) -> str:
    """A type as Spark names it."""
    return _TYPES.get(kind, kind.upper())


def _vectors(spark: SparkSession, place: Path, pick: random.Random) -> Subject:
    writer = SparkWriter(spark, place, COLUMNS, pick=pick)
    writer.create(
        delta__enableDeletionVectors="true",
        delta__enableInCommitTimestamps="true",
        delta__checkpointPolicy="v2",
        delta__checkpointInterval="3",
    )
    writer.fill()
    _change(writer)
    return writer.subject("deletion vectors, version 2 checkpoints, in-commit timestamps")


def _tracked(spark: SparkSession, place: Path, pick: random.Random) -> Subject:
    writer = SparkWriter(spark, place, COLUMNS, pick=pick)
    writer.create(also="CLUSTER BY (text, number)", delta__enableRowTracking="true")
    writer.fill()
    _change(writer)
    return writer.subject("row tracking and liquid clustering")


def _mapped(mode: str) -> Callable[[SparkSession, Path, random.Random], Subject]:
    def make(spark: SparkSession, place: Path, pick: random.Random) -> Subject:
        writer = SparkWriter(spark, place, COLUMNS, pick=pick)
        writer.create(delta__columnMapping__mode=mode, delta__enableDeletionVectors="true")
        writer.fill()
        writer.rename({"single": "number", "number": "single"})
        writer.again("text")
        writer.delete([0, 5, 14])
        writer.insert(writer.new_rows(100, 3))
        return writer.subject(f"columns mapped by {mode}, renamed, swapped and added again")

    return make


def _widened(spark: SparkSession, place: Path, pick: random.Random) -> Subject:
    writer = SparkWriter(spark, place, COLUMNS, pick=pick)
    writer.create(delta__enableTypeWidening="true", delta__enableDeletionVectors="true")
    writer.fill()
    for name, kind in _WIDE.items():
        writer.alter(f"ALTER COLUMN `{name}` TYPE {spark_type(kind)}")
        writer.columns[name] = kind
    writer.delete([0, 5, 14])
    writer.insert(writer.new_rows(100, 3))
    return writer.subject("type widening")


def _typed(spark: SparkSession, place: Path, pick: random.Random) -> Subject:
    columns = {**FEW, "at": "timestamp"}
    writer = SparkWriter(spark, place, columns, pick=pick)
    writer.create()
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    # Arrow does not understand INT96 before the Julian day 0, in the year -4713.
    rows = [
        {**r, "at": r["at"] and max(r["at"], DAY_ONE * DAY)} for r in every_value(columns, pick)
    ]
    try:
        writer.insert(rows)
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    writer.alter("ADD COLUMNS (v VARIANT, nothing VOID)")
    writer.sql(f"UPDATE {writer.name} SET v = parse_json('{{\"a\": 1}}') WHERE id > 20")
    return writer.subject("INT96 timestamps, a variant and a void column", writable=False)


def _is_kept(kind: str, value: Any) -> bool:
    """Whether Spark writes a value of a partition as it is.

    It does not keep -0.0 apart, and spells moments as the calendar of Java's old dates has them.
    """
    if kind == "timestamp":
        return value is not None and 0 <= value < 253_402_300_799_999_999
    return bool(value != 0.0)


def _partitioned(kind: str) -> Callable[[SparkSession, Path, random.Random], Subject]:
    def make(spark: SparkSession, place: Path, pick: random.Random) -> Subject:
        writer = SparkWriter(spark, place, {**FEW, "part": kind}, pick=pick)
        writer.create(also="PARTITIONED BY (part)")
        rows = every_value(writer.columns, pick)
        writer.insert(
            [{**r, "part": r["part"] if _is_kept(kind, r["part"]) else None} for r in rows]
        )
        return writer.subject(f"partitioned by {kind}")

    return make


def _computed(spark: SparkSession, place: Path, pick: random.Random) -> Subject:
    writer = SparkWriter(spark, place, FEW, pick=pick)
    writer.sql(
        f"CREATE TABLE {writer.name} (id BIGINT GENERATED BY DEFAULT AS IDENTITY, single FLOAT,"
        " number DOUBLE, text STRING DEFAULT 'x', bytes BINARY,"
        " twice BIGINT GENERATED ALWAYS AS (id * 2)) USING delta"
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    writer.fill()
    writer.columns["twice"] = "int64"
    writer.rows = [{**r, "twice": 2 * r["id"]} for r in writer.rows]
    return writer.subject("identity, default and generated columns", writable=False)


def _iceberg(
    spark: SparkSession, place: Path, pick: random.Random, **properties: str
) -> SparkWriter:
    columns = {n: kind for n, kind in COLUMNS.items() if kind not in ("int8", "int16")}
    writer = SparkWriter(spark, place, columns, format="iceberg", pick=pick)
    modes = {f"write__{name}__mode": "merge-on-read" for name in ("delete", "update", "merge")}
    writer.create(**modes, **properties)
    return writer


def _marked(version: str) -> Callable[[SparkSession, Path, random.Random], Subject]:
    def make(spark: SparkSession, place: Path, pick: random.Random) -> Subject:
        writer = _iceberg(spark, place, pick, format_version=version)
        writer.fill()
        _change(writer)
        found = writer.subject(f"rows deleted in place, version {version}", writable=version == "2")
        found.appends = True
        return found

    return make


def _evolved(spark: SparkSession, place: Path, pick: random.Random) -> Subject:
    writer = _iceberg(spark, place, pick)
    writer.fill()
    writer.rename({"single": "number", "number": "single", "parts": "pieces", "pairs": "couples"})
    writer.again("text")
    writer.alter("RENAME COLUMN whole.c TO c2")
    writer.alter("RENAME COLUMN whole.c2 TO c")
    writer.insert(writer.new_rows(100, 3))
    writer.sql(
        f"CALL {writer.catalog}.system.expire_snapshots(table => '{place.name}.table',"
        " retain_last => 1, older_than => TIMESTAMP '2100-01-01 00:00:00',"
        " clean_expired_metadata => true)"
    )
    return writer.subject("columns renamed, swapped and added again, old schemas expired")


def _iceberg_partitions(spark: SparkSession, place: Path, pick: random.Random) -> Subject:
    columns = {**FEW, "part": "double", "day": "date"}
    writer = SparkWriter(spark, place, columns, format="iceberg", pick=pick)
    writer.create(also="PARTITIONED BY (part, months(day), truncate(2, text))")
    # Lakeward refuses to write days before the year 1 into partitions by months again.
    rows = [
        {
            **row,
            "part": None if row["part"] == 0.0 else row["part"],
            "day": None if row["day"] is None else max(row["day"], DAY_ONE),
        }
        for row in every_value(columns, pick)
    ]
    writer.insert(rows)
    return writer.subject("partitioned by NaN and infinity, months and prefixes")


def _change(writer: SparkWriter) -> None:
    writer.delete([0, 5, 14])
    writer.clear([1, 2, 20], "bytes")


RECIPES: dict[str, Callable[[SparkSession, Path, random.Random], Subject]] = {
    "vectors": _vectors,
    "tracked": _tracked,
    "mapped-by-name": _mapped("name"),
    "mapped-by-id": _mapped("id"),
    "widened": _widened,
    "typed": _typed,
    "partitioned-by-double": _partitioned("double"),
    "partitioned-by-timestamp": _partitioned("timestamp"),
    "computed": _computed,
    "iceberg-marked": _marked("2"),
    "iceberg-vectors": _marked("3"),
    "iceberg-evolved": _evolved,
    "iceberg-partitions": _iceberg_partitions,
}
"""What is special about each table, and how to make it."""
