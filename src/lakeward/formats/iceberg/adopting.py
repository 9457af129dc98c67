"""Finds an existing Iceberg table and reads it completely, so that a lake can adopt it.

No file is written. After the adoption the lake's own catalog decides which document is current; the
catalog in which the table was found is not changed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists, CorruptTable, TableNotFound
from lakeward.formats.adoption import Adoption
from lakeward.formats.iceberg.definition import NAME
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.elsewhere import pointer_in
from lakeward.formats.iceberg.history import read_history
from lakeward.formats.iceberg.listing import ManifestReader, schemeless
from lakeward.formats.iceberg.metadata import document_at, reader
from lakeward.formats.places import table_location
from lakeward.log import catalog as own_catalog
from lakeward.log.database import Session
from lakeward.model.names import TableName


class IcebergAdoption:
    """Implements the part of the format contract that finds and reads tables to be adopted."""

    def find_in_catalog(
        self, context: LakeContext, name: TableName, catalog: Mapping[str, str] | None, known: str
    ) -> str:
        """Return the address of a table's current document in a catalog.

        `catalog` None means the lake's own catalog.
        """
        if catalog is not None:
            # If the catalog's properties have no storage options, the lake's own are used.
            return pointer_in({**context.storage.iceberg_properties(), **catalog}, known)
        with context.database.read() as session:
            found = own_catalog.pointer(session, name)
        if found is None:
            what = f"The lake's Iceberg catalog has no table {name}."
            raise TableNotFound(what, hint="Give the table's location.", table=str(name))
        return found

    def read_table(
        self, context: LakeContext, name: TableName, source: str, *, take_over: bool
    ) -> Adoption:
        """Read a table, given the address of its current metadata document."""
        document = _current(context, name, document_at(context, source))
        location = document.body.get("location")
        if not isinstance(location, str) or not location:
            what = f"{document.location} does not say where the table is."
            raise CorruptTable(what, path=document.location)
        place = table_location(context.storage, schemeless(location))
        with context.database.read() as session:
            ours = own_catalog.pointer(session, name) == document.location
        kept_as = document.properties.get(NAME)
        if kept_as is not None and not (take_over or ours):
            what = f"The table at {location} is kept by a lake, as {kept_as}."
            hint = "Work with it through that lake; if that lake is gone, adopt it with take_over."
            raise AlreadyExists(what, hint=hint, location=location)
        full = context.storage.uri(place)
        history = read_history(document, ManifestReader(reader(context), full))
        if not history.uuid:
            history = replace(history, uuid=str(uuid.uuid4()))
        enter = partial(_enter, name=name, document=document, location=full)
        return Adoption(place, history, guarded=True, pointer=document.location, enter=enter)


def _current(context: LakeContext, name: TableName, document: Document) -> Document:
    """Return the document in the lake's own catalog if it is of the same table, else `document`."""
    with context.database.read() as session:
        entered = own_catalog.pointer(session, name)
    if entered is None or entered == document.location:
        return document
    known = document_at(context, entered)
    return known if known.uuid and known.uuid == document.uuid else document


def _enter(session: Session, name: TableName, document: Document, location: str) -> None:
    """Insert the table into the lake's catalog, unless the catalog has it.

    Raises:
        AlreadyExists: The catalog has the table under another name, or another table under `name`.
    """
    own = own_catalog.identifier(name)
    below = f"{location}/{METADATA_DIRECTORY}/"
    for entered, pointer in own_catalog.pointers(session).items():
        same = pointer == document.location or schemeless(pointer or "").startswith(below)
        if same and entered == own:
            # If another writer changed the pointer meanwhile, its commits are taken over later.
            return
        if same:
            known_as = ".".join(entered)
            what = f"The lake's Iceberg catalog has the table at {location} as {known_as}."
            raise AlreadyExists(what, hint=f"Adopt it as {known_as}.", location=location)
    own_catalog.insert(session, name, document.location)
