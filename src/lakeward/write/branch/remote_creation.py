"""Creates tables that a client of the Iceberg REST catalog has staged, with or without rows.

The client has requested the metadata of a new table, has written files to the location in it, and
commits both. The table is adopted from that one document, so it exists with its rows or not at all.
It is inserted in the database transaction that commits the other tables of the same commit.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import orjson

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.adoption import Adoption
from lakeward.formats.iceberg.definition import CREATED
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.publication import metadata_name
from lakeward.formats.registry import format_named
from lakeward.log import policies
from lakeward.log.database import Session
from lakeward.model.names import TableName
from lakeward.write.branch.remote import (
    blaming_client,
    blaming_files,
    check_new_files,
    check_settings,
    reader_inside,
)
from lakeward.write.branch.remote_checked import check_claims
from lakeward.write.commit.once import is_first
from lakeward.write.commit.publications import Author
from lakeward.write.tables.adopt import adopt, insert_adopted
from lakeward.write.tables.own_policy import own_fields, taken_over

_FORMAT: Final = "iceberg"
_ACTION: Final = "CREATE TABLE"


def new_place(name: TableName) -> str:
    """Return a new directory of the warehouse for a table that a client creates."""
    return f"{_directory(name)}-{secrets.token_hex(6)}"


def create_empty(
    context: LakeContext,
    name: TableName,
    document: Document,
    key: str | None,
    what: str,
) -> None:
    """Create an empty table from its first document; with a key only once.

    `what` identifies the client's request, for the key.

    Raises:
        AlreadyExists: There is a table of this name.
        InvalidInput, UnsupportedFeature: The document cannot be used; see `_written`.
    """
    place = _written(context, name, document, trusted=False)

    def note(session: Session) -> None:
        is_first(context, session, key, what)

    adopt(context, name, place, guard=True, format=_FORMAT, note=note, action=_ACTION)


@dataclass(frozen=True, slots=True)
class Creation:
    """A table that a commit creates, whose document is written already."""

    name: TableName
    found: Adoption

    @property
    def timestamp_ms(self) -> int:
        """The time of its newest version."""
        return self.found.history.commits[-1].timestamp_ms

    @property
    def earlier(self) -> int:
        """How many versions it has before its newest one, which is part of the transaction."""
        return len(self.found.history.commits) - 1

    def insert(
        self,
        context: LakeContext,
        session: Session,
        author: Author,
        at_ms: int,
        places: Sequence[int],
    ) -> None:
        """Insert the table, with its newest version as a commit of the author's transaction.

        `places` are the positions of its versions in the commit order.

        Raises:
            AlreadyExists: There is a table or a view of this name.
        """
        history = self.found.history
        *earlier, newest = history.commits
        newest = replace(newest, timestamp_ms=at_ms, info=author.signed(newest.info))
        own = replace(self.found, history=replace(history, commits=[*earlier, newest]))
        kind = format_named(_FORMAT)
        insert_adopted(context, session, self.name, kind, own, action=_ACTION, places=places)


def prepare_creation(
    context: LakeContext, name: TableName, document: Document, *, trusted: bool
) -> Creation:
    """Check and write the first document of a table that a commit creates.

    Raises:
        InvalidInput: A data file is missing, or not what its manifest claims.
        InvalidInput, UnsupportedFeature: The document cannot be used; see `_written`.
    """
    place = _written(context, name, document, trusted=trusted)
    with blaming_client(name):
        found = format_named(_FORMAT).read_table(context, name, place, take_over=False)
    with blaming_files(name):
        check_claims(context, name, found.location, [f.file for f in found.history.files])
    return Creation(name, found)


def _written(context: LakeContext, name: TableName, document: Document, *, trusted: bool) -> str:
    """Check the first document of a table that a client built, and write it; return its address.

    Raises:
        InvalidInput: The document refers to locations outside of the table's, or has a property
            with a value that the lake cannot use.
        UnsupportedFeature: Policies have constraints, against which its rows are not checked.
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
    return place


def _directory(name: TableName) -> str:
    return f"{name.namespace}/{name.name}" if name.namespace else name.name
