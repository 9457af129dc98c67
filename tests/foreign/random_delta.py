"""Random Delta tables, written by deltalake."""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias

from deltalake import (
    ColumnProperties,
    DeltaTable,
    PostCommitHookProperties,
    WriterProperties,
    write_deltalake,
)

from tests.foreign.language import Row
from tests.foreign.subject import Subject
from tests.foreign.values import random_value, to_arrow

Level: TypeAlias = Literal["PAGE", "CHUNK", "NONE"]
KINDS = (
    *("boolean", "int8", "int16", "int32", "int64", "float", "double", "float", "double"),
    *("string", "string", "binary", "date", "timestamp", "timestamp_ntz"),
    *("decimal(10,2)", "decimal(38,10)", "struct", "list", "map", "structs"),
)
PARTITIONING = (
    *("boolean", "int8", "int32", "int64", "float", "double", "string", "date", "timestamp"),
    *("timestamp_ntz", "decimal(10,2)"),
)


def _can_partition(value: Any) -> bool:
    """Whether a value is one that a partition can have, in the directory's name too."""
    if isinstance(value, float) and math.isfinite(value):
        # Others do not keep 0.0 and -0.0 apart.
        return 1e-9 < abs(value) < 1e9
    if isinstance(value, Decimal):
        return value >= 0  # deltalake writes -2.01 as '-2.-1'
    # Either stands for null.
    return value not in ("", "__HIVE_DEFAULT_PARTITION__")


class DeltaWriter:
    """Writes one table and keeps account of its rows.

    Args:
        place: The table's directory.
        columns: Kinds by name; `id` is among them.
        partition_by: Names.
        configuration: Of the table.
        pick: Chooses values.
    """

    def __init__(
        self,
        place: Path,
        columns: dict[str, str],
        *,
        partition_by: list[str] | None = None,
        configuration: dict[str, str | None] | None = None,
        pick: random.Random,
    ) -> None:
        self.place = str(place)
        self.columns = dict(columns)
        self.rows: list[Row] = []
        self.steps: list[str] = []
        self._partition_by = partition_by or []
        self._configuration = configuration or {}
        self._pick = pick
        self._next = 0

    @property
    def table(self) -> DeltaTable:
        """The table as it is now."""
        return DeltaTable(self.place)

    def subject(self, name: str, **options: Any) -> Subject:
        """The table to be examined."""
        told = f"{name} {self._partition_by} {self._configuration} {self.steps}"
        return Subject(told, "delta", self.place, self.columns, self.rows, **options)

    def new_rows(self, count: int) -> list[Row]:
        """Rows with ids that no other has."""
        found = []
        for _ in range(count):
            row = {n: random_value(kind, self._pick) for n, kind in self.columns.items()}
            found.append({**row, "id": self._next})
            self._next += 1
        return self.allowed(found)

    def allowed(self, rows: list[Row]) -> list[Row]:
        """The rows with null in place of what cannot be the value of a partition."""
        parts = self._partition_by
        return [{**r, **{n: None for n in parts if not _can_partition(r[n])}} for r in rows]

    def start_at(self, number: int) -> None:
        """Number new rows from here on."""
        self._next = number

    def append(self, rows: list[Row], **options: Any) -> None:
        """Add rows; the first time, make the table."""
        options.setdefault("writer_properties", random_properties(self._pick))
        write_deltalake(
            self.place,
            to_arrow(rows, self.columns),
            mode="append",
            partition_by=self._partition_by or None,
            configuration=self._configuration,
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=False),
            **options,
        )
        self.rows += rows
        self.steps.append(f"append {len(rows)}")

    def delete(self, ids: list[int]) -> None:
        """Delete rows."""
        if not ids:
            return
        self.table.delete(f"id IN ({', '.join(map(str, ids))})")
        self.rows = [r for r in self.rows if r["id"] not in ids]
        self.steps.append("delete")

    def merge(self, ids: list[int], more: int) -> None:
        """Give some rows other values and insert new ones."""
        new = self.new_rows(len(ids) + more)
        for row, number in zip(new, ids, strict=False):
            row["id"] = number
        merger = self.table.merge(
            to_arrow(new, self.columns), predicate="t.id = s.id", source_alias="s", target_alias="t"
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()
        self.rows = [r for r in self.rows if r["id"] not in ids] + new
        self.steps.append("merge")

    def clear(self, ids: list[int], name: str) -> None:
        """Set a column of some rows to null."""
        if not ids:
            return
        self.table.update(updates={name: "NULL"}, predicate=f"id IN ({', '.join(map(str, ids))})")
        self.rows = [{**r, name: None} if r["id"] in ids else r for r in self.rows]
        self.steps.append(f"update {name}")

    def add_column(self, name: str, kind: str) -> None:
        """A new column, which older rows have not."""
        self.rows = [{**r, name: None} for r in self.rows]
        self.columns[name] = kind
        self.append(self.new_rows(2), schema_mode="merge")

    def without_statistics(self) -> None:
        """Take the statistics out of the newest commit, as if its writer had not told any."""
        newest = max(Path(self.place, "_delta_log").glob("*.json"))
        lines = [json.loads(line) for line in newest.read_text().splitlines()]
        for line in lines:
            if "add" in line:
                line["add"].pop("stats", None)
        # delta-rs reads an escaped pair of surrogates beyond U+FFFFF as another character.
        newest.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
        self.steps.append("no statistics")

    def some(self) -> list[int]:
        """Ids of some rows."""
        return [r["id"] for r in self.rows if self._pick.random() < 0.3]


def random_properties(pick: random.Random) -> WriterProperties:
    """How Parquet files are written: with statistics or without, cut short, small row groups."""
    levels: list[Level] = ["PAGE", "CHUNK", "CHUNK", "NONE"]
    statistics = pick.choice(levels)
    return WriterProperties(
        max_row_group_size=pick.choice((1, 3, 100)),
        statistics_truncate_length=pick.choice((None, 4, 16)),
        default_column_properties=ColumnProperties(
            statistics_enabled=statistics, dictionary_enabled=pick.random() < 0.5
        ),
    )


def random_delta(place: Path, seed: int) -> Subject:
    """A table of random columns, partitions and settings, after random changes."""
    pick = random.Random(seed)
    kinds = [pick.choice(KINDS) for _ in range(pick.randint(3, 8))]
    styles = pick.choice((("c",), ("c",), ("c", "C ", "é")))
    names = [f"{pick.choice(styles)}{n}" for n in range(len(kinds))]
    columns = {"id": "int64", **dict(zip(names, kinds, strict=True))}
    able = [n for n, kind in columns.items() if kind in PARTITIONING and n != "id"]
    parts = pick.sample(able, min(len(able), pick.choice((0, 0, 1, 1, 2))))
    mapping = pick.choice((None, None, "name", "id"))
    configuration: dict[str, str | None] = {}
    if mapping:
        configuration["delta.columnMapping.mode"] = mapping
    if pick.random() < 0.3:
        configuration["delta.dataSkippingNumIndexedCols"] = pick.choice(("0", "2"))
    if pick.random() < 0.2:
        configuration["delta.enableChangeDataFeed"] = "true"
    if pick.random() < 0.1:
        configuration["delta.enableDeletionVectors"] = "true"
    writer = DeltaWriter(place, columns, partition_by=parts, configuration=configuration, pick=pick)
    for _ in range(pick.randint(1, 3)):
        writer.append(writer.new_rows(pick.choice((1, 2, 5, 8))))
    for _ in range(pick.randint(0, 4)):
        _change(writer, pick, parts, mapped=mapping is not None)
    # With deletion vectors deltalake enables the type variant, too.
    writable = "delta.enableDeletionVectors" not in configuration
    return writer.subject(f"random delta, seed {seed}", writable=writable)


def _change(writer: DeltaWriter, pick: random.Random, parts: list[str], *, mapped: bool) -> None:
    simple = [n for n, k in writer.columns.items() if n != "id" and n not in parts]
    match pick.choice(("append", "delete", "merge", "clear", "column", "stats", "keep", "compact")):
        case "append":
            writer.append(writer.new_rows(pick.choice((0, 1, 4))))
        case "delete":
            writer.delete(writer.some())
        case "merge":
            writer.merge(writer.some(), 2)
        case "clear" if simple:
            writer.clear(writer.some(), pick.choice(simple))
        case "column" if not mapped:
            writer.add_column(f"added_{len(writer.columns)}", pick.choice(KINDS))
        case "stats":
            writer.without_statistics()
        case "keep":
            writer.table.create_checkpoint()
        case "compact" if not mapped:
            writer.table.optimize.compact()
        case _:
            pass
