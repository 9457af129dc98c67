"""Which warehouse a store belongs to, as the store records it.

The warehouse holds the same identity in a marker file, so that each of the two recognises the
other when a lake is opened.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import orjson

from lakeward.errors import StoreCorrupt
from lakeward.log.database import Session
from lakeward.log.migrations import get_fact, put

_KEY: Final = "warehouse"


@dataclass(frozen=True, slots=True)
class Binding:
    """The bond between a store and its warehouse.

    Attributes:
        identity: A random id that both hold.
        warehouse: The warehouse's full name when the two were bound.
        store: The store's own place at that time, as `Database.place` names it.
        spelled: The warehouse as it was spelled then, maybe by symbolic links.
    """

    identity: str
    warehouse: str
    store: str
    spelled: str = ""


def read(session: Session) -> Binding | None:
    """The recorded warehouse; None in a store that no warehouse was bound to yet.

    Raises:
        StoreCorrupt: The record cannot be understood.
    """
    text = get_fact(session, _KEY)
    if text is None:
        return None
    try:
        return Binding(**orjson.loads(text))
    except (TypeError, orjson.JSONDecodeError) as error:
        what = f"The store's record of its warehouse cannot be understood: {text!r}."
        raise StoreCorrupt(what, hint="Restore the store from a backup or rebuild it.") from error


def write(session: Session, new: Binding) -> None:
    """Record a warehouse in place of the one recorded before."""
    put(session, _KEY, orjson.dumps(asdict(new)).decode())
