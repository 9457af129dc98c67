"""Iceberg tables that pyiceberg writes, each with one feature, all with odd values."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)

from tests.foreign.corpus_delta import COLUMNS as DELTA_COLUMNS
from tests.foreign.corpus_delta import FEW, every_value
from tests.foreign.random_iceberg import IcebergWriter
from tests.foreign.subject import Subject
from tests.support.delete_files import delete_in_place

COLUMNS = {n: kind for n, kind in DELTA_COLUMNS.items() if kind not in ("int8", "int16")}
"""A column of each kind."""
Recipe = Callable[[SqlCatalog, str, random.Random], Subject]


def _plain(**properties: str) -> Recipe:
    def make(catalog: SqlCatalog, name: str, pick: random.Random) -> Subject:
        writer = _writer(catalog, name, pick, properties=_dotted(properties))
        writable = properties.get("format_version") != "1"
        return writer.subject(f"every kind of column {properties}", writable=writable)

    return make


def _partitioned(kind: str, transform: Any) -> Recipe:
    def make(catalog: SqlCatalog, name: str, pick: random.Random) -> Subject:
        writer = IcebergWriter(catalog, name, {**FEW, "part": kind}, pick=pick)
        writer.partition("part", transform)
        _fill(writer, pick)
        return writer.subject(f"partitioned by {transform} of {kind}")

    return make


def _evolved(change: Callable[[IcebergWriter], None], *, forget: bool) -> Recipe:
    def make(catalog: SqlCatalog, name: str, pick: random.Random) -> Subject:
        writer = _writer(catalog, name, pick)
        change(writer)
        writer.append(writer.new_rows(2))
        place = writer.forget() if forget else None
        return writer.subject("an evolved schema", location=place)

    return make


def _rename(writer: IcebergWriter) -> None:
    writer.rename({"number": "other", "text": "words", "items": "things", "parts": "pieces"})


def _swap(writer: IcebergWriter) -> None:
    writer.rename({"number": "single", "single": "number", "text": "bytes", "bytes": "text"})


def _drop(writer: IcebergWriter) -> None:
    writer.drop("number")
    writer.drop("parts")


def _again(writer: IcebergWriter) -> None:
    for name, kind in (("number", "double"), ("text", "string"), ("pairs", "map")):
        writer.drop(name)
        writer.add(name, kind)


def _reorder(writer: IcebergWriter) -> None:
    writer.move_first("text")
    writer.move_first("number")


def _widen(writer: IcebergWriter) -> None:
    for name in ("int", "single", "exact"):
        writer.widen(name)


def _add(writer: IcebergWriter) -> None:
    for kind in ("double", "string", "struct", "structs"):
        writer.add(f"added_{kind}", kind)


def _partitions_changed(catalog: SqlCatalog, name: str, pick: random.Random) -> Subject:
    writer = IcebergWriter(catalog, name, {**FEW, "day": "date", "n": "int32"}, pick=pick)
    writer.append(writer.new_rows(6))
    writer.partition("day", MonthTransform())
    writer.append(writer.new_rows(6))
    writer.partition("n", BucketTransform(4))
    writer.append(writer.new_rows(6))
    writer.unpartition()
    writer.append(writer.new_rows(2))
    return writer.subject("partitions changed")


def _deleted(catalog: SqlCatalog, name: str, pick: random.Random) -> Subject:
    writer = _writer(catalog, name, pick)
    writer.delete([1, 2, 14])
    return writer.subject("rows deleted by rewriting files")


def _marked(catalog: SqlCatalog, name: str, pick: random.Random) -> Subject:
    writer = _writer(catalog, name, pick)
    for task in list(writer.table.scan().plan_files()):
        gone = range(0, task.file.record_count, 3)
        delete_in_place(writer.table, {task.file.file_path: list(gone)})
        writer.table.refresh()
    left = set(writer.table.scan().to_arrow()["id"].to_pylist())
    assert 0 < len(left) < len(writer.rows)
    writer.rows = [r for r in writer.rows if r["id"] in left]
    return writer.subject("rows deleted in place, by position delete files")


def _added_files(catalog: SqlCatalog, name: str, pick: random.Random) -> Subject:
    writer = IcebergWriter(catalog, name, COLUMNS, pick=pick)
    rows = writer.allowed(every_value(COLUMNS, pick))
    for part in (rows[:12], rows[12:]):
        writer.add_files(part)
    return writer.subject("files added that have no field ids")


def _added_and_renamed(catalog: SqlCatalog, name: str, pick: random.Random) -> Subject:
    writer = IcebergWriter(catalog, name, COLUMNS, pick=pick)
    writer.add_files(writer.allowed(every_value(COLUMNS, pick)))
    writer.start_at(1000)
    writer.rename({"number": "other", "text": "words"})
    writer.append(writer.new_rows(6))
    return writer.subject("files added that have no field ids, columns renamed")


def _small_files(catalog: SqlCatalog, name: str, pick: random.Random) -> Subject:
    writer = IcebergWriter(catalog, name, COLUMNS, pick=pick)
    for _ in range(6):
        writer.append(writer.new_rows(1))
    writer.add_files([])
    return writer.subject("files of one row and of none")


def _empty(catalog: SqlCatalog, name: str, pick: random.Random) -> Subject:
    return IcebergWriter(catalog, name, COLUMNS, pick=pick).subject("no row ever")


def _writer(catalog: SqlCatalog, name: str, pick: random.Random, **options: Any) -> IcebergWriter:
    writer = IcebergWriter(catalog, name, COLUMNS, pick=pick, **options)
    _fill(writer, pick)
    return writer


def _fill(writer: IcebergWriter, pick: random.Random) -> None:
    """Three files, with every odd value in them."""
    rows = writer.allowed(every_value(writer.columns, pick))
    for part in (rows[:12], rows[12:13], rows[13:]):
        writer.append(part)
    writer.start_at(1000)


def _dotted(properties: dict[str, str]) -> dict[str, str]:
    names = {
        "format_version": "format-version",
        "metrics": "write.metadata.metrics.default",
        "row_group": "write.parquet.row-group-limit",
    }
    return {names[name]: value for name, value in properties.items()}


_EVOLUTIONS = {
    "renamed": _rename,
    "swapped": _swap,
    "dropped": _drop,
    "added-again": _again,
    "reordered": _reorder,
    "widened": _widen,
    "added": _add,
}
_PARTITIONS: list[tuple[str, Any]] = [
    ("float", IdentityTransform()),
    ("double", IdentityTransform()),
    ("string", IdentityTransform()),
    ("timestamp", IdentityTransform()),
    ("date", YearTransform()),
    ("date", MonthTransform()),
    ("date", DayTransform()),
    ("timestamp", YearTransform()),
    ("timestamp", DayTransform()),
    ("timestamp", HourTransform()),
    ("string", TruncateTransform(2)),
    ("string", BucketTransform(3)),
    ("int64", TruncateTransform(10)),
    ("int64", BucketTransform(3)),
    ("decimal(10,2)", BucketTransform(3)),
]
RECIPES: dict[str, Recipe] = {
    "plain": _plain(),
    "version-1": _plain(format_version="1"),
    "no-metrics": _plain(metrics="none"),
    "counts-only": _plain(metrics="counts"),
    "cut-metrics": _plain(metrics="truncate(4)", row_group="3"),
    "full-metrics": _plain(metrics="full", row_group="1"),
    **{f"partitioned-by-{t}-of-{kind}": _partitioned(kind, t) for kind, t in _PARTITIONS},
    **{name: _evolved(change, forget=False) for name, change in _EVOLUTIONS.items()},
    **{f"{n}-and-forgotten": _evolved(change, forget=True) for n, change in _EVOLUTIONS.items()},
    "partitions-changed": _partitions_changed,
    "deleted": _deleted,
    "marked": _marked,
    "added-files": _added_files,
    "added-files-renamed": _added_and_renamed,
    "small-files": _small_files,
    "empty": _empty,
}
"""What is special about each table, and how to make it."""
