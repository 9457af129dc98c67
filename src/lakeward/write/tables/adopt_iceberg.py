"""An existing Iceberg table taken into the log, and entered into the lake's own catalog.

The table's metadata is read, whole, before anything is inserted, and no file is written. From then
on the lake's catalog says which document is current; a catalog that the table came from goes on
saying what it said.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists, CorruptTable
from lakeward.formats.iceberg.definition import NAME
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.history import read_history
from lakeward.formats.iceberg.listing import ManifestReader, schemeless
from lakeward.formats.iceberg.memory import Memory
from lakeward.log import catalog
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from lakeward.write.commit import iceberg
from lakeward.write.tables.adopted_history import insert_adopted
from lakeward.write.tables.places import relative_location


def adopt_iceberg(
    context: LakeContext, name: TableName, pointer: str, *, drift: str, take_over: bool
) -> Head:
    """Take an existing Iceberg table into the lake.

    Args:
        context: The lake's.
        name: What the lake shall call it.
        pointer: Its current metadata document.
        drift: `adopt` or `refuse` what others commit later.
        take_over: Take the table even if a lake keeps it, because that lake is gone.

    Raises:
        CorruptTable: Its metadata cannot be understood. Nothing was changed.
        UnsupportedFeature: It has what the lake cannot read. Nothing was changed.
        AlreadyExists: The lake has it, or another lake keeps it.
    """
    read = iceberg.reader(context)
    document = _current(context, name, context.cache(Memory).document(pointer, read))
    location = document.body.get("location")
    if not isinstance(location, str) or not location:
        what = f"{document.location} does not say where the table is."
        raise CorruptTable(what, path=document.location)
    place = relative_location(context.storage, schemeless(location))
    with context.database.read() as session:
        ours = catalog.pointer(session, name) == document.location
    kept_as = document.properties.get(NAME)
    if kept_as is not None and not (take_over or ours):
        what = f"The table at {location} is kept by a lake, as {kept_as}."
        hint = "Work with it through that lake; if that lake is gone, adopt it with take_over."
        raise AlreadyExists(what, hint=hint, location=location)
    history = read_history(document, ManifestReader(read, context.storage.uri(place)))
    if not history.uuid:
        history = replace(history, uuid=str(uuid.uuid4()))

    def enter(session: Session) -> None:
        _enter(session, name, document, context.storage.uri(place))

    return insert_adopted(
        context,
        name,
        place,
        history,
        guard=True,
        drift=drift,
        format=iceberg.FORMAT,
        pointer=document.location,
        enter=enter,
    )


def _current(context: LakeContext, name: TableName, document: Document) -> Document:
    """The document that the lake's own catalog has for the table, where it has the same table."""
    with context.database.read() as session:
        entered = catalog.pointer(session, name)
    if entered is None or entered == document.location:
        return document
    known = context.cache(Memory).document(entered, iceberg.reader(context))
    return known if known.uuid and known.uuid == document.uuid else document


def _enter(session: Session, name: TableName, document: Document, location: str) -> None:
    """See that the catalog has the table once, under its name.

    Raises:
        AlreadyExists: It has the table under another name, or another table under this one.
    """
    own = catalog.identifier(name)
    below = f"{location}/{METADATA_DIRECTORY}/"
    for entered, pointer in catalog.pointers(session).items():
        same = pointer == document.location or schemeless(pointer or "").startswith(below)
        if same and entered == own:
            # Who moved it meanwhile is followed like anybody who commits later.
            return
        if same:
            known_as = ".".join(entered)
            what = f"The lake's Iceberg catalog has the table at {location} as {known_as}."
            raise AlreadyExists(what, hint=f"Adopt it as {known_as}.", location=location)
    catalog.insert(session, name, document.location)
