"""Tables that a client of the Iceberg REST catalog stages, and creates with or without rows.

The client has asked for the metadata of a new table, has written files to the place that it names,
and commits both. The table is adopted from that one document, so it is there with its rows or not
at all.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import replace

import orjson

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.iceberg.definition import CREATED
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.publication import metadata_name
from lakeward.log import policies
from lakeward.model.names import TableName
from lakeward.write.branch.remote import check_new_files, reader_inside
from lakeward.write.tables.adopt import adopt


def new_place(name: TableName) -> str:
    """A directory of the warehouse for a table that a client creates; no two get the same."""
    return f"{_directory(name)}-{secrets.token_hex(6)}"


def create_staged(context: LakeContext, name: TableName, document: Document) -> None:
    """Create a table from the first document that a client made up.

    Raises:
        InvalidInput: The document names places that are not the table's.
        UnsupportedFeature: Policies have constraints by which its rows would have to be checked.
        AlreadyExists: There is a table of this name.
    """
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
    check_new_files(context, name, location, reader_inside(context, name, location), document)
    place = metadata_name(context.storage.uri(location))
    by = {"at_ms": document.body["last-updated-ms"], "actor": context.actor}
    properties = {**document.properties, CREATED: orjson.dumps(by).decode()}
    named = replace(document, location=place, body={**document.body, "properties": properties})
    file = f"{location}/{METADATA_DIRECTORY}/{place.rpartition('/')[2]}"
    context.storage.put(file, named.encode())
    adopt(context, name, place, guard=True, format="iceberg")


def _directory(name: TableName) -> str:
    return f"{name.namespace}/{name.name}" if name.namespace else name.name
