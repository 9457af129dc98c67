"""The warehouse of a store, as the store records it; a marker file there has the same identity."""

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
    """The warehouse's full name and the store's `Database.place` when the two were bound."""

    identity: str
    """A random id that both hold."""
    warehouse: str
    store: str
    spelled: str = ""
    """The warehouse as the user spelled it, perhaps with symbolic links."""


def read(session: Session) -> Binding | None:
    """The recorded warehouse; None if none was bound yet."""
    text = get_fact(session, _KEY)
    if text is None:
        return None
    try:
        return Binding(**orjson.loads(text))
    except (TypeError, orjson.JSONDecodeError) as error:
        what = f"The store's record of its warehouse cannot be understood: {text!r}."
        raise StoreCorrupt(what, hint="Restore the store from a backup or rebuild it.") from error


def write(session: Session, new: Binding) -> None:
    """Record a warehouse, in place of an earlier one."""
    put(session, _KEY, orjson.dumps(asdict(new)).decode())
