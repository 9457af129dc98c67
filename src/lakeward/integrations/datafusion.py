"""Registers tables of a lake, and Delta tables at paths, in a DataFusion context of the user.

`register` chooses the fastest possible reader and returns which one it is: DataFusion's Parquet
reader over the files of the version; for Delta tables at a path, the table provider of delta-rs;
otherwise an Arrow dataset, to which DataFusion passes filters and columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from weakref import WeakKeyDictionary

import pyarrow as pa

from lakeward.engines.datafusion import delta_table_at
from lakeward.engines.sql.datafusion import FILE_NUMBER, DataFusionSession, with_file_names
from lakeward.engines.sql.pruning import Wanted
from lakeward.engines.sql.source import Source
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.integrations.datasets.dataset import Dataset
from lakeward.integrations.datasets.location import DatasetLocation, ScanOptions
from lakeward.lake.lake import Lake
from lakeward.lake.table import Table
from lakeward.read.changes_dataset import changes_dataset
from lakeward.read.dataset import audited
from lakeward.read.snapshot import TableSnapshot
from lakeward.read.sources import source_of

_SESSIONS: Final[WeakKeyDictionary[Any, list[DataFusionSession]]] = WeakKeyDictionary()
"""The sessions of each context, with links to the files it reads; removed with the context."""


@dataclasses.dataclass(frozen=True, slots=True)
class Registration:
    """How a table was registered.

    Attributes:
        name: The name of the table in the context.
        place: The table of the lake, or the path.
        version: The version that is read; None if it is not known.
        way: Which reader is used: `parquet` for DataFusion, `provider` for delta-rs, `dataset` for
            Lakeward.
        reason: Why this reader is used.
        files: How many files are read; None if that is not known.
        scan: The scan options that are in effect.
    """

    name: str
    place: str
    version: int | None
    way: str
    reason: str
    files: int | None
    scan: Mapping[str, Any]
    _session: DataFusionSession | None = dataclasses.field(
        default=None, repr=False, compare=False, metadata={"json": None}
    )

    def close(self) -> None:
        """Remove the temporary links that DataFusion reads; the table cannot be read any more."""
        if self._session is not None:
            self._session.close()

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values, for example to keep it as an artefact of a run."""
        shown = [f.name for f in dataclasses.fields(self) if not f.name.startswith("_")]
        return {name: getattr(self, name) for name in shown}


def register(
    context: Any,
    name: str,
    source: Dataset | DatasetLocation | TableSnapshot | Table,
    *,
    lake: Lake | None = None,
    scan: ScanOptions | Mapping[str, Any] | None = None,
) -> Registration:
    """Register a table at one version in a DataFusion context.

    The version is not pinned: if vacuum may run meanwhile, read it within `lake.snapshot()`.
    DataFusion raises an error for a file that is deleted later. It leaves such a file out silently
    if the tables of the context have so many files that `list_files_cache_limit` is exceeded.

    Args:
        context: A `datafusion.SessionContext`.
        name: The name of the table in the context.
        source: A dataset or its location, or a table of a lake, at its newest or another version.
        lake: The lake of the table, if `source` is a location with a table.
        scan: How the files are scanned; the scan options of the location unless given.

    Raises:
        InvalidInput: A scan option is unknown, or a file does not belong to the version.
        UnsupportedFeature: A scan option needs DataFusion's Parquet reader, which cannot read the
            table; or the location has `columns` or `where`.
        MissingExtra: DataFusion, or for paths delta-rs, is not installed.
    """
    if isinstance(source, DatasetLocation):
        if source.path is None and lake is None:
            what = "The location of a table needs its lake."
            raise InvalidInput(what, hint="Give lake=…, or a Dataset.", parameter="lake")
        if source.path is not None:
            return _register_path(context, name, source, scan)
        source = Dataset(lake=lake, location=source)  # type: ignore[arg-type]  # checked above
    if isinstance(source, Dataset):
        place = source.location
        if place.path is not None:
            return _register_path(context, name, place, scan)
        options = ScanOptions.of(place.scan if scan is None else scan)
        table = source.snapshot()
        plan = source._planned_by(table)
        found = source_of(table, Wanted(), plan, access=place.access)
        narrowed = found, place.columns, place.where
    elif isinstance(source, Table | TableSnapshot):
        options = ScanOptions.of(scan)
        table = source.at() if isinstance(source, Table) else source
        narrowed = source_of(table, Wanted()), None, None
    else:
        what = f"{type(source).__name__} is no table and no dataset."
        raise InvalidInput(what, parameter="source")
    audited(table)
    return _register(context, name, table, narrowed, options)


def register_changes(
    context: Any,
    name: str,
    table: Table,
    *,
    since: int | str | datetime,
    until: int | str | datetime | None = None,
    key: str | Sequence[str] | None = None,
) -> Registration:
    """Register the rows that a range of versions changed in a DataFusion context.

    Args:
        context: A `datafusion.SessionContext`.
        name: The name of the rows in the context.
        table: The table whose changes are registered.
        since: The first version, as in `Table.changes`.
        until: The last version; the newest now unless given.
        key: As in `Table.changes`.
    """
    last = table.version if until is None else until
    dataset = changes_dataset(
        lambda columns: table.changes(since=since, until=last, columns=columns, key=key),
        label=f"changes of {table.name}",
    )
    session = _session_of(context)
    session.register(name, Source(dataset.schema, lambda: dataset))
    reason = "change data is computed from the log, and no engine has a provider for it"
    version = last if isinstance(last, int) else None
    return Registration(name, table.name, version, "dataset", reason, None, {}, session)


def _register(
    context: Any,
    name: str,
    table: TableSnapshot,
    narrowed: tuple[Source, Sequence[str] | None, str | None],
    options: ScanOptions,
) -> Registration:
    found, columns, where = narrowed
    if columns is not None or where is not None:
        what = "A location with `columns` or `where` cannot be registered."
        raise UnsupportedFeature(what, hint="Say so in the query: DataFusion pushes it down.")
    session = _session_of(context)
    used = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
    used["schema"] = None if options.schema is None else str(options.schema)
    if found.files is None or not found.files.paths:
        reason = found.reason or "the table has no files"
        if options != ScanOptions():
            what = f"Scan options need DataFusion's own reader; of {table.name} {reason}."
            raise UnsupportedFeature(what, hint="Register it without them.", table=table.name)
        session.register(name, found)
        return Registration(name, table.name, table.version, "dataset", reason, None, {}, session)
    if options.file_name_column in found.schema.names:
        what = f"Table {table.name} has a column {options.file_name_column!r} already."
        raise InvalidInput(what, hint="Choose another file_name_column.", table=table.name)
    files = len(found.files.paths)
    inner = name if options.file_name_column is None else f"{name}_with_files"
    scanned = _with_options(found, options)
    session.register(inner, scanned, pruning=options.pruning)
    if options.file_name_column is not None:
        with_file_names(context, name, inner, scanned, options.file_name_column)
    reason = "the files hold exactly the rows of the table"
    return Registration(name, table.name, table.version, "parquet", reason, files, used, session)


def _session_of(context: Any) -> DataFusionSession:
    """Return a new session over a user's context, which is kept as long as the context."""
    found = DataFusionSession(context)
    _SESSIONS.setdefault(context, []).append(found)
    return found


def _register_path(context: Any, name: str, place: DatasetLocation, scan: Any) -> Registration:
    if ScanOptions.of(place.scan if scan is None else scan) != ScanOptions():
        what = f"Scan options are for tables of the lake, not for {place.path}."
        raise UnsupportedFeature(what, hint="lake.adopt takes it into the lake.")
    if place.columns is not None or place.where is not None:
        what = "A location with `columns` or `where` cannot be registered."
        raise UnsupportedFeature(what, hint="Say so in the query.")
    if place.filesystem is not None:
        what = f"delta-rs would read the files of {place.path} without the location's filesystem."
        hint = "Register an Arrow table of the dataset, or take the path into the lake."
        raise UnsupportedFeature(what, hint=hint)
    table = delta_table_at(
        place.place,
        version=place.version,
        timestamp=place.timestamp,
        options=place.storage_options,
    )
    context.register_table(name, table)
    reason = "delta-rs has a table provider for Delta tables"
    return Registration(name, place.place, table.version(), "provider", reason, None, {})


def _with_options(source: Source, options: ScanOptions) -> Source:
    """Return the source with the column types and the column of file numbers of the options."""
    schema = source.schema if options.schema is None else options.schema
    missing = [n for n in schema.names if n not in source.schema.names]
    if missing:
        what = f"The schema of a scan has a column {missing[0]!r} that the table lacks."
        raise InvalidInput(what, hint=f"It has {', '.join(source.schema.names)}.")
    if options.view_types:
        views = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}
        schema = pa.schema([f.with_type(views.get(f.type, f.type)) for f in schema])
    if options.file_name_column is None or source.files is None:
        return dataclasses.replace(source, schema=schema)
    own = source.files
    parts = own.partitions or [()] * len(own.paths)
    numbered = [(*p, (FILE_NUMBER, str(n))) for n, p in enumerate(parts)]
    return dataclasses.replace(
        source,
        schema=schema.append(pa.field(FILE_NUMBER, pa.int32())),
        files=dataclasses.replace(own, partitions=numbered),
        partitioned={**source.partitioned, FILE_NUMBER: pa.int32()},
    )
