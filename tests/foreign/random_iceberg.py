"""Random Iceberg tables, written by pyiceberg."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
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
from pyiceberg.types import DecimalType, DoubleType, LongType

from tests.foreign.language import DAY, FLOATING, INTEGERS, Row
from tests.foreign.subject import Subject
from tests.foreign.values import DAY_ONE, arrow_type, random_value, to_arrow

KINDS = (
    *("boolean", "int32", "int32", "int64", "float", "float", "double", "double"),
    *("string", "string", "binary", "date", "timestamp", "timestamp_ntz"),
    *("decimal(10,2)", "decimal(38,10)", "struct", "list", "map", "structs"),
)
WIDER = {"int32": "int64", "float": "double", "decimal(10,2)": "decimal(14,2)"}
_WIDER_TYPES = {"int64": LongType(), "double": DoubleType(), "decimal(14,2)": DecimalType(14, 2)}
_ANY: tuple[Any, ...] = (IdentityTransform(), BucketTransform(3))
_TRANSFORMS: dict[str, tuple[Any, ...]] = {
    "boolean": (IdentityTransform(),),
    "int32": (*_ANY, TruncateTransform(10)),
    "int64": (*_ANY, TruncateTransform(10)),
    "float": (IdentityTransform(),),
    "double": (IdentityTransform(),),
    "string": (*_ANY, TruncateTransform(2)),
    "binary": (BucketTransform(3), TruncateTransform(1)),
    "date": (*_ANY, YearTransform(), MonthTransform(), DayTransform()),
    "timestamp": (*_ANY, YearTransform(), MonthTransform(), DayTransform(), HourTransform()),
    "timestamp_ntz": (*_ANY, YearTransform(), MonthTransform(), DayTransform(), HourTransform()),
    "decimal(10,2)": _ANY,
}


def _allowed(kind: str, value: Any, *, partitions: bool) -> Any:
    if value is None:
        return None
    if kind in FLOATING and partitions:
        # pyiceberg cannot write NaN there, and puts 0.0 and -0.0 into one partition.
        return None if math.isnan(value) else value + 0.0
    if kind in INTEGERS and value == -(2 ** (INTEGERS[kind] - 1)):
        return value + 8
    steps = {"date": 1, "timestamp": DAY, "timestamp_ntz": DAY}
    return max(value, DAY_ONE * steps[kind]) if kind in steps else value


class IcebergWriter:
    """Writes one table and keeps account of its rows.

    Args:
        catalog: Of somebody else.
        name: The table's, with its namespace.
        columns: Kinds by name; `id` is among them.
        properties: Of the table.
        pick: Chooses values.
    """

    def __init__(
        self,
        catalog: SqlCatalog,
        name: str,
        columns: dict[str, str],
        *,
        properties: dict[str, str] | None = None,
        pick: random.Random,
    ) -> None:
        self.columns = dict(columns)
        self.rows: list[Row] = []
        self.steps: list[str] = []
        self._pick = pick
        self._next = 0
        self._properties = properties or {}
        catalog.create_namespace_if_not_exists(name.split(".")[0])
        schema = pa.schema([(n, arrow_type(kind)) for n, kind in columns.items()])
        self.table = catalog.create_table(name, schema, properties=self._properties)

    def subject(self, name: str, *, location: str | None = None, **options: Any) -> Subject:
        """The table to be examined."""
        parts = [f"{f.source_id} {f.transform}" for f in self.table.spec().fields]
        told = f"{name} {parts} {self._properties} {self.columns} {self.steps}"
        place = location or self.table.metadata_location
        return Subject(told, "iceberg", place, self.columns, self.rows, **options)

    def new_rows(self, count: int) -> list[Row]:
        """Rows with ids that no other has."""
        found = []
        for _ in range(count):
            row = {n: random_value(kind, self._pick) for n, kind in self.columns.items()}
            found.append({**row, "id": self._next})
            self._next += 1
        return self.allowed(found)

    def allowed(self, rows: list[Row]) -> list[Row]:
        """The rows with values that pyiceberg can write and `truncate` can cut.

        pyiceberg keeps bounds as Python's dates.
        """
        parts = {
            self.table.schema().find_column_name(f.source_id)
            for f in self.table.spec().fields
            if isinstance(f.transform, IdentityTransform)
        }
        return [
            {n: _allowed(self.columns[n], v, partitions=n in parts) for n, v in r.items()}
            for r in rows
        ]

    def start_at(self, number: int) -> None:
        """Number new rows from here on."""
        self._next = number

    def append(self, rows: list[Row]) -> None:
        """Add rows; pyiceberg writes lists of structs that are missing as empty ones."""
        self.table.append(to_arrow(rows, self.columns))
        lists = [n for n, kind in self.columns.items() if kind == "structs"]
        self.rows += [{**r, **{n: r[n] or [] for n in lists}} for r in rows]
        self.steps.append(f"append {len(rows)}")

    def add_files(self, rows: list[Row]) -> None:
        """Add rows in a file that has no field ids."""
        place = Path(self.table.location().removeprefix("file://"), "added")
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"{len(self.steps)}.parquet"
        pq.write_table(to_arrow(rows, self.columns), path, row_group_size=2)
        self.table.add_files([f"file://{path}"])
        self.rows += rows
        self.steps.append("add_files")

    def delete(self, ids: list[int]) -> None:
        """Delete rows."""
        if not ids:
            return
        try:
            self.table.delete(f"id IN ({', '.join(map(str, ids))})")
        except ZeroDivisionError:
            # pyiceberg fails where no row of a file stays and the file's bounds do not show that.
            return
        self.rows = [r for r in self.rows if r["id"] not in ids]
        self.steps.append("delete")

    def rename(self, names: dict[str, str]) -> None:
        """Give columns other names; two may change theirs with each other."""
        with self.table.update_schema() as update:
            for name in names:
                update.rename_column(name, f"{name}__")
        with self.table.update_schema() as update:
            for name, new in names.items():
                update.rename_column(f"{name}__", new)
        self.columns = {names.get(n, n): kind for n, kind in self.columns.items()}
        self.rows = [{names.get(n, n): v for n, v in r.items()} for r in self.rows]
        self.steps.append(f"rename {names}")

    def drop(self, name: str) -> None:
        """Remove a column."""
        with self.table.update_schema() as update:
            update.delete_column(name)
        del self.columns[name]
        self.rows = [{n: v for n, v in r.items() if n != name} for r in self.rows]
        self.steps.append(f"drop {name}")

    def add(self, name: str, kind: str) -> None:
        """A column that older rows have not."""
        with self.table.update_schema() as update:
            update.union_by_name(pa.schema([(name, arrow_type(kind))]))
        self.columns[name] = kind
        self.rows = [{**r, name: None} for r in self.rows]
        self.steps.append(f"add {name}")

    def widen(self, name: str) -> None:
        """A column of a wider type."""
        wider = WIDER[self.columns[name]]
        with self.table.update_schema() as update:
            update.update_column(name, _WIDER_TYPES[wider])
        self.columns[name] = wider
        self.steps.append(f"widen {name}")

    def move_first(self, name: str) -> None:
        """Another order of columns."""
        with self.table.update_schema() as update:
            update.move_first(name)
        self.columns = {name: self.columns[name], **self.columns}
        self.steps.append(f"move {name}")

    def partition(self, name: str, transform: Any) -> None:
        """One more partition field, for what is written from now on."""
        with self.table.update_spec() as update:
            update.add_field(name, transform, f"p_{len(self.steps)}")
        self.steps.append(f"partition {name} by {transform}")

    def unpartition(self) -> None:
        """No partition fields for what is written from now on."""
        with self.table.update_spec() as update:
            for found in self.table.spec().fields:
                update.remove_field(found.name)
        self.steps.append("unpartition")

    def forget(self) -> str:
        """The place of a metadata document without the older snapshots and the older schemas.

        As `expire_snapshots` with `clean_expired_metadata` leaves it.
        """
        path = Path(self.table.metadata_location.removeprefix("file://"))
        document = json.loads(path.read_text())
        current = document["current-snapshot-id"]
        document["snapshots"] = [s for s in document["snapshots"] if s["snapshot-id"] == current]
        used = {document["current-schema-id"], *(s.get("schema-id") for s in document["snapshots"])}
        document["schemas"] = [s for s in document["schemas"] if s["schema-id"] in used]
        document["snapshot-log"] = [
            s for s in document["snapshot-log"] if s["snapshot-id"] == current
        ]
        document["metadata-log"] = []
        document.pop("statistics", None)
        new = path.with_name(f"99999-{path.name}")
        new.write_text(json.dumps(document))
        self.steps.append("forget")
        return f"file://{new}"

    def some(self) -> list[int]:
        """Ids of some rows."""
        return [r["id"] for r in self.rows if self._pick.random() < 0.3]


def random_iceberg(catalog: SqlCatalog, seed: int) -> Subject:
    """A table of random columns, partitions and settings, after random changes."""
    pick = random.Random(seed)
    kinds = [pick.choice(KINDS) for _ in range(pick.randint(3, 8))]
    styles = pick.choice((("c",), ("c",), ("c", "C ", "é")))
    names = [f"{pick.choice(styles)}{n}" for n in range(len(kinds))]
    columns = {"id": "int64", **dict(zip(names, kinds, strict=True))}
    properties = {"format-version": pick.choice(("1", "2", "2"))}
    if pick.random() < 0.4:
        how = pick.choice(("none", "counts", "truncate(4)", "full"))
        properties["write.metadata.metrics.default"] = how
    if pick.random() < 0.4:
        properties["write.parquet.row-group-limit"] = pick.choice(("1", "3"))
    writer = IcebergWriter(catalog, f"random.t{seed}", columns, properties=properties, pick=pick)
    for _ in range(pick.choice((0, 0, 1, 1, 2))):
        _partition(writer, pick)
    writer.append(writer.new_rows(pick.choice((2, 5, 8))))
    for _ in range(pick.randint(0, 6)):
        _change(writer, pick)
    forgetful = pick.random() < 0.4
    if forgetful:
        writer.append(writer.new_rows(1))
    place = writer.forget() if forgetful else writer.table.metadata_location
    writable = writer.table.metadata.format_version > 1
    return writer.subject(f"random iceberg, seed {seed}", location=place, writable=writable)


def _partition(writer: IcebergWriter, pick: random.Random) -> None:
    used = {f.source_id for f in writer.table.spec().fields}
    ids = {f.name: f.field_id for f in writer.table.schema().fields}
    able = [n for n, k in writer.columns.items() if k in _TRANSFORMS and ids[n] not in used]
    if able:
        name = pick.choice(able)
        writer.partition(name, pick.choice(_TRANSFORMS[writer.columns[name]]))


def _change(writer: IcebergWriter, pick: random.Random) -> None:
    partitioned = {f.source_id for f in writer.table.spec().fields}
    ids = {f.name: f.field_id for f in writer.table.schema().fields}
    free = [n for n in writer.columns if n != "id"]
    loose = [n for n in free if ids[n] not in partitioned]
    wider = [n for n in loose if writer.columns[n] in WIDER]
    steps = ("append", "append", "delete", "rename", "swap", "drop", "add", "again", "widen")
    match pick.choice((*steps, "move", "partition", "unpartition", "add_files")):
        case "append":
            writer.append(writer.new_rows(pick.choice((1, 1, 4))))
        case "delete" if "add_files" not in writer.steps:
            # Of those files pyiceberg would write missing lists of structs again as empty ones.
            writer.delete(writer.some())
        case "rename":
            name = pick.choice(free)
            writer.rename({name: f"renamed_{len(writer.steps)}"})
        case "swap" if len(free) > 1 and "add_files" not in writer.steps:
            # pyiceberg itself cannot read files without ids after that.
            a, b = pick.sample(free, 2)
            writer.rename({a: b, b: a})
        case "drop" if len(loose) > 2:
            writer.drop(pick.choice(loose))
        case "add":
            writer.add(f"added_{len(writer.steps)}", pick.choice(KINDS))
        case "again" if len(loose) > 2 and "add_files" not in writer.steps:
            # The mapping of names would give the new column the values of the old one.
            name = pick.choice(loose)
            kind = writer.columns[name]
            writer.drop(name)
            writer.add(name, kind)
        case "widen" if wider:
            writer.widen(pick.choice(wider))
        case "move":
            writer.move_first(pick.choice(free))
        case "partition":
            _partition(writer, pick)
        case "unpartition":
            writer.unpartition()
        case "add_files" if not partitioned:
            writer.add_files(writer.new_rows(3))
        case _:
            pass
