"""Tables of a lake, and tables at paths, in a user's own context of DataFusion.

`register` takes the best way there is and says which: DataFusion's own Parquet reader over exactly
the files of the version; for Delta tables at a path, the table provider of delta-rs; and otherwise
a dataset of Arrow, which gets DataFusion's filters and columns.
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
from lakeward.read.snapshot import TableSnapshot
from lakeward.read.sources import source_of

_SESSIONS: Final[WeakKeyDictionary[Any, list[DataFusionSession]]] = WeakKeyDictionary()
"""The links to files that each context reads; they are removed when it is gone."""


@dataclasses.dataclass(frozen=True, slots=True)
class Registration:
    """How a table was registered.

    Attributes:
        name: What the context calls it.
        place: The table of the lake, or the path.
        version: At which version.
        way: `parquet`: DataFusion reads the files itself; `provider`: delta-rs does; `dataset`: our
            own reader does.
        reason: Why this way.
        files: How many files it has; None where that is not known.
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
        """The record as values of JSON, to be kept as an artefact of a run."""
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
    """Make a table known to a context of DataFusion, at one version.

    The version is not pinned: take `lake.snapshot()` around it where vacuum may run meanwhile.

    Args:
        context: A `datafusion.SessionContext`.
        name: What the context calls it.
        source: A dataset or its location, or a table of a lake, at its newest or another version.
        lake: Whose tables a location means.
        scan: How the files are scanned; as the location says unless given.

    Raises:
        InvalidInput: A scan option is unknown, or a file is not of the version.
        UnsupportedFeature: A scan option needs DataFusion's own reader, and the table another one.
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
        found = source_of(table, Wanted(), source._planned_by(table))
        narrowed = found, place.columns, place.where
    elif isinstance(source, Table | TableSnapshot):
        options = ScanOptions.of(scan)
        table = source.at() if isinstance(source, Table) else source
        narrowed = source_of(table, Wanted()), None, None
    else:
        what = f"{type(source).__name__} is no table and no dataset."
        raise InvalidInput(what, parameter="source")
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
    """Make the rows that a range of versions changed known to a context of DataFusion.

    Args:
        context: A `datafusion.SessionContext`.
        name: What the context calls them.
        table: Whose changes.
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
    session.register(inner, _with_options(found, options), pruning=options.pruning)
    if options.file_name_column is not None:
        with_file_names(context, name, inner, found, options.file_name_column)
    reason = "the files hold exactly the rows of the table"
    return Registration(name, table.name, table.version, "parquet", reason, files, used, session)


def _session_of(context: Any) -> DataFusionSession:
    """A session over a user's context, which lives as long as the context does."""
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
    """The source with other types of columns, and with a number for each file."""
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
