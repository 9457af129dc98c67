"""Delta tables that deltalake writes, each with one feature, all with odd values."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import ColumnProperties, DeltaTable, Field, Schema, WriterProperties
from deltalake.schema import PrimitiveType

from tests.foreign.language import Row
from tests.foreign.random_delta import DeltaWriter, Level
from tests.foreign.subject import Subject
from tests.foreign.values import pool, to_arrow

COLUMNS = {
    "id": "int64",
    "flag": "boolean",
    "tiny": "int8",
    "small": "int16",
    "int": "int32",
    "big": "int64",
    "single": "float",
    "number": "double",
    "exact": "decimal(10,2)",
    "wide": "decimal(38,10)",
    "text": "string",
    "bytes": "binary",
    "day": "date",
    "at": "timestamp",
    "wall": "timestamp_ntz",
    "whole": "struct",
    "items": "list",
    "pairs": "map",
    "parts": "structs",
}
"""A column of each kind."""
FEW = {"id": "int64", "single": "float", "number": "double", "text": "string", "bytes": "binary"}
Recipe = Callable[[Path, random.Random], Subject]


def every_value(columns: dict[str, str], pick: random.Random) -> list[Row]:
    """Rows in which every odd value of every kind occurs, in an order of chance, and nulls."""
    drawn = {}
    for name, kind in columns.items():
        values = [None, *pool(kind)]
        drawn[name] = values * (26 // len(values) + 1)
        pick.shuffle(drawn[name])
    return [{n: values[i] for n, values in drawn.items()} | {"id": i} for i in range(26)]


def _plain(place: Path, pick: random.Random) -> Subject:
    writer = _writer(place, pick)
    return writer.subject("every kind of column")


def _changed(place: Path, pick: random.Random) -> Subject:
    writer = _writer(place, pick)
    _change(writer)
    return writer.subject("DELETE, UPDATE and MERGE")


def _mapped(mode: str) -> Recipe:
    def make(place: Path, pick: random.Random) -> Subject:
        writer = _writer(place, pick, configuration={"delta.columnMapping.mode": mode})
        _change(writer)
        return writer.subject(f"column mapping by {mode}")

    return make


def _mapped_partitions(place: Path, pick: random.Random) -> Subject:
    columns = {**FEW, "part": "int32", "name": "string"}
    configuration: dict[str, str | None] = {"delta.columnMapping.mode": "name"}
    writer = _writer(
        place, pick, columns, configuration=configuration, partition_by=["part", "name"]
    )
    return writer.subject("column mapping and partitions")


def _partitioned(kind: str) -> Recipe:
    def make(place: Path, pick: random.Random) -> Subject:
        writer = _writer(place, pick, {**FEW, "part": kind}, partition_by=["part"])
        return writer.subject(f"partitioned by {kind}")

    return make


def _change_feed(place: Path, pick: random.Random) -> Subject:
    writer = _writer(place, pick, configuration={"delta.enableChangeDataFeed": "true"})
    _change(writer)
    return writer.subject("change data feed")


def _vectors_enabled(place: Path, pick: random.Random) -> Subject:
    writer = _writer(place, pick, configuration={"delta.enableDeletionVectors": "true"})
    _change(writer)
    return writer.subject("deletion vectors enabled, none written", writable=False)


def _checkpoint_only(place: Path, pick: random.Random) -> Subject:
    writer = _writer(place, pick)
    _change(writer)
    writer.table.create_checkpoint()
    for commit in Path(place, "_delta_log").glob("*.json"):
        commit.unlink()
    return writer.subject("a checkpoint and no commits before it")


def _checkpoint_between(place: Path, pick: random.Random) -> Subject:
    writer = _writer(place, pick)
    writer.table.create_checkpoint()
    _change(writer)
    writer.append(writer.new_rows(1))
    return writer.subject("a checkpoint between commits")


def _constraint(place: Path, pick: random.Random) -> Subject:
    writer = _writer(place, pick)
    writer.table.alter.add_constraint({"known": "id >= 0"})
    writer.delete([0])
    return writer.subject("a check")


def _generated(place: Path, pick: random.Random) -> Subject:
    expression = {"delta.generationExpression": "id * 2"}
    schema = Schema(
        [
            Field("id", PrimitiveType("long")),
            Field("number", PrimitiveType("double")),
            Field("twice", PrimitiveType("long"), metadata=expression),
        ]
    )
    DeltaTable.create(str(place), schema)
    columns = {"id": "int64", "number": "double", "twice": "int64"}
    writer = DeltaWriter(place, columns, pick=pick)
    rows = [{**r, "twice": 2 * r["id"]} for r in every_value(columns, pick)]
    writer.append(rows)
    return writer.subject("a generated column", writable=False)


def _settings(**settings: Any) -> Recipe:
    def make(place: Path, pick: random.Random) -> Subject:
        configuration = {f"delta.{name}": value for name, value in settings.items()}
        writer = _writer(place, pick, configuration=configuration)
        return writer.subject(f"{settings}")

    return make


def _no_log_statistics(place: Path, pick: random.Random) -> Subject:
    writer = _writer(place, pick)
    writer.without_statistics()
    return writer.subject("no statistics in the newest commit")


def _parquet(name: str, properties: WriterProperties) -> Recipe:
    def make(place: Path, pick: random.Random) -> Subject:
        writer = _writer(place, pick, writer_properties=properties)
        return writer.subject(f"Parquet with {name}")

    return make


def _small_files(place: Path, pick: random.Random) -> Subject:
    writer = DeltaWriter(place, COLUMNS, pick=pick)
    for row in every_value(COLUMNS, pick)[:8]:
        writer.append([row])
    by_hand(writer, [])
    writer.start_at(100)
    by_hand(writer, writer.new_rows(2))
    return writer.subject("files of one row and of none")


def _optimized(place: Path, pick: random.Random) -> Subject:
    writer = _writer(place, pick)
    writer.table.optimize.compact()
    writer.append(writer.new_rows(3))
    writer.table.optimize.z_order(["number"])
    return writer.subject("compacted and in Z-order")


def _restored(place: Path, pick: random.Random) -> Subject:
    writer = _writer(place, pick)
    before = list(writer.rows)
    version = writer.table.version()
    _change(writer)
    writer.table.restore(version)
    writer.rows = before
    return writer.subject("restored")


def _added_columns(place: Path, pick: random.Random) -> Subject:
    writer = _writer(place, pick, FEW)
    for kind in ("float", "string", "timestamp", "struct", "structs"):
        writer.add_column(f"added_{kind}", kind)
    return writer.subject("columns added later")


def by_hand(writer: DeltaWriter, rows: list[Row]) -> None:
    """Commit a file that pyarrow wrote, without any statistics in the log."""
    name = f"{uuid.uuid4()}.parquet"
    path = Path(writer.place, name)
    pq.write_table(to_arrow(rows, writer.columns), path)
    add = {
        "path": name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
    }
    number = writer.table.version() + 1
    commit = Path(writer.place, "_delta_log", f"{number:020}.json")
    commit.write_text(json.dumps({"add": add}) + "\n")
    writer.rows += rows


def _writer(
    place: Path,
    pick: random.Random,
    columns: dict[str, str] = COLUMNS,
    *,
    writer_properties: WriterProperties | None = None,
    **options: Any,
) -> DeltaWriter:
    """A table of three files, with every odd value in it."""
    writer = DeltaWriter(place, columns, pick=pick, **options)
    rows = writer.allowed(every_value(columns, pick))
    for part in (rows[:12], rows[12:13], rows[13:]):
        if writer_properties is None:
            writer.append(part)
        else:
            writer.append(part, writer_properties=writer_properties)
    writer.start_at(1000)
    return writer


def _change(writer: DeltaWriter) -> None:
    writer.delete([0, 5, 14])
    writer.clear([1, 2], "text")
    writer.merge([3, 12, 20], 2)


def _chunks(level: Level) -> WriterProperties:
    return WriterProperties(
        max_row_group_size=4,
        statistics_truncate_length=4,
        default_column_properties=ColumnProperties(statistics_enabled=level),
    )


_KINDS = (
    *("boolean", "int8", "int32", "int64", "float", "double", "string", "date", "timestamp"),
    *("timestamp_ntz", "decimal(10,2)"),
)
RECIPES: dict[str, Recipe] = {
    "plain": _plain,
    "changed": _changed,
    "mapped-by-name": _mapped("name"),
    "mapped-by-id": _mapped("id"),
    "mapped-partitions": _mapped_partitions,
    **{f"partitioned-by-{kind}": _partitioned(kind) for kind in _KINDS},
    "change-feed": _change_feed,
    "vectors-enabled": _vectors_enabled,
    "checkpoint-only": _checkpoint_only,
    "checkpoint-between": _checkpoint_between,
    "constraint": _constraint,
    "generated": _generated,
    "no-indexed-columns": _settings(dataSkippingNumIndexedCols="0"),
    "some-indexed-columns": _settings(dataSkippingStatsColumns="id,number"),
    "no-log-statistics": _no_log_statistics,
    "no-parquet-statistics": _parquet("no statistics", _chunks("NONE")),
    "cut-parquet-statistics": _parquet("statistics cut short", _chunks("PAGE")),
    "small-files": _small_files,
    "optimized": _optimized,
    "restored": _restored,
    "added-columns": _added_columns,
}
"""What is special about each table, and how to make it."""
