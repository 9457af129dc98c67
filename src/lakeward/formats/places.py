"""Locations of tables in a warehouse."""

from __future__ import annotations

from lakeward.errors import InvalidInput
from lakeward.model.file import is_full
from lakeward.storage.base import Storage
from lakeward.storage.paths import overlaps


def table_location(storage: Storage, location: str) -> str:
    """Return a table's directory as the log stores it.

    Raises `InvalidInput` for the warehouse itself and for a directory that contains the warehouse:
    the files of all other tables would be inside of that table.
    """
    place = storage.locate(location)
    if not place:
        what = f"{storage.root} is the warehouse itself, not a table in it."
        raise InvalidInput(what)
    if is_full(place) and overlaps(place, storage.root):
        what = f"{place} has the warehouse {storage.root} in it, and so the files of other tables."
        raise InvalidInput(what, hint="Move the table into a directory of its own.", path=place)
    return place
