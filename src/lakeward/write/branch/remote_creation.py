"""Creates tables that a client of the Iceberg REST catalog has staged, with or without rows.

The client has requested the metadata of a new table, has written files to the location in it, and
commits both. The table is adopted from that one document, so it exists with its rows or not at all.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from typing import Final

import orjson

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.iceberg.definition import CREATED
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.publication import metadata_name
from lakeward.log import policies
from lakeward.log.database import Session
from lakeward.model.names import TableName
from lakeward.write.branch.remote import check_new_files, check_settings, reader_inside
from lakeward.write.commit.once import is_first
from lakeward.write.tables.adopt import adopt
from lakeward.write.tables.own_policy import own_fields, taken_over

_FORMAT: Final = "iceberg"


def new_place(name: TableName) -> str:
    """Return a new directory of the warehouse for a table that a client creates."""
    return f"{_directory(name)}-{secrets.token_hex(6)}"


def create_staged(
    context: LakeContext,
    name: TableName,
    document: Document,
    key: str | None,
    what: str,
    *,
    trusted: bool = False,
) -> None:
    """Create a table from the first document that a client built; with a key only once.

    `what` identifies the client's request, for the key. A trusted client may add data files outside
    of the table's directory.

    Raises:
        InvalidInput: The document refers to locations outside of the table's, or has a property
            with a value that the lake cannot use.
        UnsupportedFeature: Policies have constraints, against which its rows are not checked.
        AlreadyExists: There is a table of this name.
    """
    check_settings(document.properties)
    with context.database.read() as session:
        rules = policies.for_table(session, name)
    if document.current is not None and any(rule.policy.constraints for rule in rules):
        what = f"A policy has constraints for table {name}, so it cannot be created with rows."
        raise UnsupportedFeature(what, hint="Create it first, then commit the rows.")
    root, full = context.storage.uri(""), str(document.body.get("location"))
    location = full.removeprefix(root).strip("/")
    if not re.fullmatch(rf"{re.escape(_directory(name))}-[0-9a-f]{{12}}", location):
        what = f"The commit creates table {name} at a place that the lake did not choose."
        raise InvalidInput(what, table=str(name))
    read = reader_inside(context, name, location)
    check_new_files(context, name, location, read, document, anywhere=trusted)
    place = metadata_name(context.storage.uri(location))
    by = {"at_ms": document.body["last-updated-ms"], "actor": context.actor}
    taken = taken_over(_FORMAT, name, own_fields(_FORMAT, None), rules)
    properties = {**taken, **document.properties, CREATED: orjson.dumps(by).decode()}
    named = replace(document, location=place, body={**document.body, "properties": properties})
    file = f"{location}/{METADATA_DIRECTORY}/{place.rpartition('/')[2]}"
    context.storage.put(file, named.encode())

    def note(session: Session) -> None:
        is_first(context, session, key, what)

    adopt(
        context,
        name,
        place,
        guard=True,
        format=_FORMAT,
        note=note,
        action="CREATE TABLE",
    )


def _directory(name: TableName) -> str:
    return f"{name.namespace}/{name.name}" if name.namespace else name.name
