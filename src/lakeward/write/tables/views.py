"""Creates, replaces, renames and drops views of the lake's Iceberg catalog.

A view is a metadata file, and a row of the store that points to it. Each change updates the row in
one database transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists, Conflict, NotFound
from lakeward.formats.iceberg import views as documents
from lakeward.formats.iceberg.document import METADATA_DIRECTORY
from lakeward.formats.iceberg.metadata import reader
from lakeward.formats.iceberg.publication import metadata_name
from lakeward.log import heads, namespaces, views
from lakeward.log.catalog import identifier
from lakeward.log.database import Session
from lakeward.model.names import TableName
from lakeward.write.commit.once import is_first, was_made

_TRIES: Final = 10


def create_view(
    context: LakeContext, name: TableName, document: Mapping[str, Any], key: str | None, what: str
) -> str:
    """Create a view; return the location of its metadata file.

    With an idempotency key this is done once; `what` identifies the request.

    Raises:
        AlreadyExists: There is a table or a view of this name.
    """
    with context.database.read() as session:
        if key is None:
            _check_free(session, name)
    place = _written(context, document, None)
    with context.database.write() as session:
        context.database.lock_schema(session)
        context.check_bound(session)
        if not is_first(context, session, key, what):
            return str(views.pointer(session, name))
        _check_free(session, name)
        namespaces.enter(session, identifier(name)[0])
        if not views.insert(session, name, place):
            raise _taken(name)
    return place


def load_view(context: LakeContext, name: TableName) -> tuple[str, dict[str, Any]]:
    """Return the location of a view's metadata file, and its document.

    Raises:
        NotFound: There is no such view.
    """
    with context.database.read() as session:
        place = _pointer(session, name)
    return place, documents.parse(place, reader(context)(place))


def replace_view(
    context: LakeContext,
    name: TableName,
    change: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    key: str | None,
    what: str,
) -> None:
    """Replace a view's document by the result of `change`; try again if others replaced it.

    With an idempotency key this is done once; `what` identifies the request.

    Raises:
        NotFound: There is no such view.
        Conflict: Others replaced the view at each try.
    """
    if key is not None:
        with context.database.read() as session:
            if was_made(context, session, key, what):
                return
    for _ in range(_TRIES):
        before, document = load_view(context, name)
        place = _written(context, change(document), before)
        with context.database.write() as session:
            is_swapped = views.swap(session, name, before, place)
            if is_swapped:
                is_first(context, session, key, what)
                return
    message = f"Others replaced view {name} again and again."
    raise Conflict(message, hint="Load the view, and commit again.", table=str(name))


def rename_view(context: LakeContext, old: TableName, new: TableName, key: str | None) -> None:
    """Rename a view.

    Raises:
        NotFound: There is no such view.
        AlreadyExists: There is a table or a view of the new name.
    """
    with context.database.write() as session:
        context.database.lock_schema(session)
        if not is_first(context, session, key, f"rename view {old} to {new}"):
            return
        _pointer(session, old)
        taken = "View" if views.pointer(session, new) is not None else None
        if heads.find(session, new) is not None:
            taken = "Table"
        if taken is not None:
            what = f"Cannot rename {old} to {new}. {taken} already exists."
            raise AlreadyExists(what, hint="Choose another name.")
        namespaces.enter(session, identifier(new)[0])
        views.rename(session, old, new)


def drop_view(context: LakeContext, name: TableName, key: str | None) -> None:
    """Remove a view from the catalog; its metadata files stay.

    Raises:
        NotFound: There is no such view.
    """
    with context.database.write() as session:
        if not is_first(context, session, key, f"drop view {name}"):
            return
        if not views.delete(session, name):
            raise _missing(name)


def _written(context: LakeContext, document: Mapping[str, Any], before: str | None) -> str:
    """Write a document as the next metadata file of its view; return its location."""
    location = str(document["location"])
    place = metadata_name(location, before)
    inside = context.storage.path_of(location)
    context.storage.make_directory(f"{inside}/{METADATA_DIRECTORY}")
    context.storage.put(context.storage.path_of(place), orjson.dumps(document))
    return place


def _check_free(session: Session, name: TableName) -> None:
    views.check_absent(session, name)
    if heads.find(session, name) is not None:
        raise AlreadyExists(f"Table with same name already exists: {name}.")  # noqa: EM102


def _pointer(session: Session, name: TableName) -> str:
    found = views.pointer(session, name)
    if found is None:
        raise _missing(name)
    return found


def _taken(name: TableName) -> AlreadyExists:
    return AlreadyExists(f"The lake has a view {name} already.", view=str(name))


def _missing(name: TableName) -> NotFound:
    return NotFound(f"The lake has no view {name}.", view=str(name))
