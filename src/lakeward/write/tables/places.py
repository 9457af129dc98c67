"""Where a table that is to be adopted lies, as the log keeps it."""

from __future__ import annotations

from lakeward.errors import InvalidInput
from lakeward.storage.base import Storage


def relative_location(storage: Storage, location: str) -> str:
    """A directory as the log keeps it: below the warehouse where it is, in full elsewhere.

    Raises:
        InvalidInput: It is the warehouse itself, or lies where its storage does not reach.
    """
    place = storage.locate(location)
    if not place:
        what = f"{storage.root} is the warehouse itself, not a table in it."
        raise InvalidInput(what)
    return place
