"""Reads the state in a checkpoint as Arrow columns.

Classic checkpoints in one or many parts and v2 checkpoints with sidecars are read alike: every row
of their files is an action.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.formats.delta.checkpoint import sidecar_path
from lakeward.formats.delta.damage import damaged, understanding
from lakeward.formats.delta.parse import Actions, FileReader, actions_of
from lakeward.formats.delta.segment import Checkpoint
from lakeward.formats.delta.statistics import Ticks, Trust
from lakeward.model.file import DataFile
from lakeward.storage.base import Storage

_PIECE: Final = 10_000
"""How many rows are converted to Python values at a time."""
_UNKNOWN_WRITER: Final = Trust()
"""The trust in the statistics of a checkpoint, which does not record who wrote the files."""

_PARSED: Final = ("stats_parsed", "partitionValues_parsed")
_SMALL: Final = {
    "protocol": "protocol",
    "metaData": "metadata",
    "txn": "txns",
    "domainMetadata": "domains",
    "sidecar": "sidecars",
}


@dataclass
class State:
    """A table's state: `add` actions of Parquet files as columns, all others as dictionaries."""

    actions: Actions = field(default_factory=Actions)
    columns: list[pa.StructArray] = field(default_factory=list)

    def files(self, reader: FileReader) -> Iterator[DataFile]:
        """Yield the state's files, in the order of the checkpoint."""
        for action in self.actions.adds:
            yield reader.add(action, _UNKNOWN_WRITER)
        for rows in self.columns:
            for start in range(0, len(rows), _PIECE):
                yield from _files(rows.slice(start, _PIECE), reader)


def state_of(storage: Storage, location: str, checkpoint: Checkpoint) -> State:
    """Read a checkpoint. Raises `CorruptTable`, `FileMissing`."""
    out = State()
    for path in checkpoint.paths:
        _read(out, storage.read(path), path, location, checkpoint.version)
    for name in _sidecar_names(out, location, checkpoint):
        path = sidecar_path(location, name)
        _read(out, storage.read(path), path, location, checkpoint.version)
    return out


def sidecars_of(storage: Storage, location: str, checkpoint: Checkpoint) -> list[str]:
    """Return the names of the sidecars of a checkpoint. Raises `CorruptTable`, `FileMissing`."""
    out = State()
    for path in checkpoint.paths:
        _read(out, storage.read(path), path, location, checkpoint.version)
    return _sidecar_names(out, location, checkpoint)


def _sidecar_names(state: State, location: str, checkpoint: Checkpoint) -> list[str]:
    with understanding(location, checkpoint.version):
        return [str(sidecar["path"]).rpartition("/")[2] for sidecar in state.actions.sidecars]


def _read(out: State, data: bytes, path: str, location: str, version: int) -> None:
    with understanding(location, version):
        if path.endswith(".json"):
            _merge(out.actions, actions_of(data))
            return
        try:
            found = _read_parquet(out, data)
        except (pa.ArrowException, OSError) as error:
            name = path.rpartition("/")[2]
            raise damaged(location, version, f"its checkpoint {name} is not Parquet") from error
        _merge(out.actions, found)


def _read_parquet(out: State, data: bytes) -> Actions:
    source = pq.ParquetFile(pa.BufferReader(data))
    schema = source.schema_arrow
    kinds = [name for name in _SMALL if name in schema.names]
    files = [f.name for f in schema.field("add").type] if "add" in schema.names else []
    plain = [f"add.{name}" for name in files if name not in _PARSED]
    table = source.read(columns=[*kinds, *plain])
    found = Actions()
    for name in kinds:
        rows = [_plain(row) for row in table[name].drop_null().to_pylist()]
        if isinstance(getattr(found, _SMALL[name]), list):
            setattr(found, _SMALL[name], rows)
        elif rows:
            setattr(found, _SMALL[name], rows[-1])
    if "path" in files:
        out.columns.extend(_adds(source, table, files))
    return found


def _adds(
    source: pq.ParquetFile, table: pa.Table, files: Sequence[str]
) -> Iterator[pa.StructArray]:
    """Yield the `add` actions of a checkpoint, with `stats_parsed` if some have no `stats`."""
    rows = table["add"]
    here = pc.is_valid(pc.struct_field(rows, "path"))
    rows = rows.filter(here)
    if not len(rows):
        return
    texts = pc.struct_field(rows, "stats").null_count if "stats" in files else len(rows)
    if texts and "stats_parsed" in files:
        parsed = source.read(columns=["add.stats_parsed"])["add"].filter(here)
        parsed = pa.concat_arrays(parsed.chunks) if parsed.num_chunks != 1 else parsed.chunk(0)
        whole = pa.concat_arrays(rows.chunks) if rows.num_chunks != 1 else rows.chunk(0)
        names = [f.name for f in whole.type]
        yield pa.StructArray.from_arrays(
            [*(whole.field(n) for n in names), parsed.field("stats_parsed")],
            [*names, "stats_parsed"],
        )
        return
    yield from (chunk for chunk in rows.chunks if len(chunk))


def _files(rows: pa.StructArray, reader: FileReader) -> Iterator[DataFile]:
    """Yield the files of rows; only columns that are not all null are converted."""
    columns: dict[str, list[Any]] = {}
    for part, column in zip(rows.type, rows.flatten(), strict=True):
        if column.null_count == len(column) or part.name == "dataChange":
            continue
        if part.name == "stats_parsed":
            columns[part.name] = _statistics(column)
        elif pa.types.is_map(column.type):
            if part.name != "partitionValues" or reader.is_partitioned:
                columns[part.name] = _maps(column)
        else:
            columns[part.name] = column.to_pylist()
    names = list(columns)
    for values in zip(*columns.values(), strict=True):
        action = dict(zip(names, values, strict=True))
        yield reader.add(action, _UNKNOWN_WRITER)


def _maps(column: pa.MapArray) -> list[dict[str, Any] | None]:
    ends = column.offsets.to_pylist()
    first, count = ends[0], ends[-1] - ends[0]
    keys = column.keys.slice(first, count).to_pylist()
    items = column.items.slice(first, count).to_pylist()
    out: list[dict[str, Any] | None] = [
        dict(zip(keys[a - first : b - first], items[a - first : b - first], strict=True))
        for a, b in pairwise(ends)
    ]
    if column.null_count:
        here = column.is_valid().to_pylist()
        return [row if valid else None for row, valid in zip(out, here, strict=True)]
    return out


def _statistics(column: pa.StructArray) -> list[dict[str, Any] | None]:
    """Return statistics that are stored as columns, as dictionaries like those of the JSON form."""
    whole: dict[str, list[Any]] = {}
    for part, inner in zip(column.type, column.flatten(), strict=True):
        if part.name in ("minValues", "maxValues", "nullCount") and pa.types.is_struct(inner.type):
            columns = zip(inner.type, inner.flatten(), strict=True)
            fields = {f.name: _ticks(values) for f, values in columns}
            rows = zip(*fields.values(), strict=True) if fields else iter([()] * len(inner))
            whole[part.name] = [
                {n: v for n, v in zip(fields, row, strict=True) if v is not None} for row in rows
            ]
        elif part.name in ("numRecords", "tightBounds"):
            whole[part.name] = inner.to_pylist()
    return [dict(zip(whole, row, strict=True)) for row in zip(*whole.values(), strict=True)]


def _ticks(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        units = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64()).to_pylist()
        return [None if v is None else Ticks(v) for v in units]
    if pa.types.is_date(kind):
        units = column.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if v is None else Ticks(v) for v in units]
    if pa.types.is_nested(kind) or pa.types.is_binary(kind):
        return [None] * len(column)
    return column.to_pylist()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without nulls; its maps, which Arrow returns as pairs, become dictionaries."""
    return {k: _dictionary(v) for k, v in row.items() if v is not None}


def _dictionary(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):
        return dict(value) if value else value
    return value


def _merge(into: Actions, found: Actions) -> None:
    into.protocol = found.protocol or into.protocol
    into.metadata = found.metadata or into.metadata
    into.adds.extend(found.adds)
    into.txns.extend(found.txns)
    into.domains.extend(found.domains)
    into.sidecars.extend(found.sidecars)
