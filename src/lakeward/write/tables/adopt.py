"""Adoption: an existing table taken into the log, with its history, where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, TableNotFound
from lakeward.formats.delta.publication import LOG_DIRECTORY
from lakeward.formats.iceberg.elsewhere import pointer_in
from lakeward.formats.iceberg.newest import Candidates, document_number
from lakeward.log import catalog as own_catalog
from lakeward.model import arguments
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from lakeward.write.commit import iceberg
from lakeward.write.tables.adopt_delta import adopt_delta
from lakeward.write.tables.adopt_iceberg import adopt_iceberg
from lakeward.write.tables.places import relative_location

DRIFT: Final = ("adopt", "refuse")
FORMATS: Final = (None, "delta", iceberg.FORMAT)


def adopt(
    context: LakeContext,
    name: TableName,
    location: str | Path,
    *,
    guard: bool,
    drift: str = "adopt",
    take_over: bool = False,
    format: str | None = None,  # noqa: A002  the name users know
    catalog: Mapping[str, str] | str | None = None,
) -> Head:
    """Take an existing table into the lake.

    Args:
        context: The lake's.
        name: What the lake shall call it.
        location: Its directory; of an Iceberg table a metadata file, too, or its name in the
            catalog, which in the lake's own one must be what the lake shall call it.
        guard: Keep other writers out of a Delta table from now on: one commit on it says so.
        drift: On a table that others can write, `adopt` or `refuse` what they commit later.
        take_over: Take the table even if a lake keeps it, because that lake is gone.
        format: `delta` or `iceberg`, where both lie at the location.
        catalog: Properties of the Iceberg catalog that has the table, as pyiceberg takes them;
            `lakeward` for a table that others made in the lake's own.

    Raises:
        InvalidInput: Something asked for makes no sense. Nothing was changed.
        TableNotFound: There is no table.
        CorruptTable: Its log or metadata cannot be understood. Nothing was changed.
        AlreadyExists: The lake has it, or another lake keeps it.
        UnsupportedFeature: It has what the lake cannot read.
    """
    if drift not in DRIFT:
        what = f"drift={drift!r} is not known."
        raise InvalidInput(what, hint="Use 'adopt' or 'refuse'.")
    if format not in FORMATS:
        what = f"Tables of format {format!r} cannot be adopted."
        raise InvalidInput(what, hint="Use 'delta' or 'iceberg'.")
    own = catalog == own_catalog.CATALOG
    if own and str(location) != str(name):
        what = f"A table of the lake's own catalog keeps its name there, {location}."
        raise InvalidInput(what, hint="Give that name twice.", table=str(name))
    known = None if own or catalog is None else arguments.mapping(catalog, "catalog")
    document = _document(context, name, None if own else location, format, known)
    if document is not None:
        return adopt_iceberg(context, name, document, drift=drift, take_over=take_over)
    place = relative_location(context.storage, str(location))
    return adopt_delta(context, name, place, guard=guard, drift=drift, take_over=take_over)


def _document(
    context: LakeContext,
    name: TableName,
    location: str | Path | None,
    format: str | None,  # noqa: A002  the name users know
    catalog: Mapping[str, str] | None,
) -> str | None:
    """The metadata document of the Iceberg table that is meant; None for a Delta table."""
    if catalog is not None:
        if format == "delta" or location is None:
            what = "A catalog has Iceberg tables, and `location` names one of them."
            raise InvalidInput(what, hint="Give its name there, as `namespace.table`.")
        # Where the catalog's properties name no storage options, the lake's own reach its files.
        known = {**context.storage.iceberg_properties(), **catalog}
        return pointer_in(known, str(location))
    if location is None:
        with context.database.read() as session:
            found = own_catalog.pointer(session, name)
        if found is None:
            what = f"The lake's Iceberg catalog has no table {name}."
            raise TableNotFound(what, hint="Give the table's location.", table=str(name))
        return found
    place = relative_location(context.storage, str(location))
    path = context.storage.uri(place)
    last = path.rpartition("/")[2]
    if document_number(last) is not None or last.endswith(".metadata.json"):
        return path
    candidates = Candidates.at(context.storage, place)
    has_delta = f"{place}/{LOG_DIRECTORY}" in context.storage.directories(place)
    if has_delta and candidates.names and format is None:
        what = f"Both a Delta and an Iceberg table lie at {path}."
        raise InvalidInput(what, hint="Say which with format='delta' or format='iceberg'.")
    if format == iceberg.FORMAT or (candidates.names and format is None):
        document, _ = candidates.newest()
        return document.location
    if not has_delta and format is None:
        what = f"There is no Delta or Iceberg table at {path}."
        raise TableNotFound(what, hint="Check the location.", location=path)
    return None
