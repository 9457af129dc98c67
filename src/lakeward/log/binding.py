"""The store's own settings, and among them its warehouse.

A marker file in the warehouse has the same identity as the setting.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final

import orjson

from lakeward.errors import StoreCorrupt
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import store

_KEY: Final = "warehouse"
_GET = Statement('SELECT value FROM lakeward_store WHERE "key" = :key')
_DELETE = Statement('DELETE FROM lakeward_store WHERE "key" = :k')
_INSERT = insertion(store, "")


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
    text = get_setting(session, _KEY)
    if text is None:
        return None
    return _binding(text)


def write(session: Session, new: Binding) -> None:
    """Record a warehouse, in place of an earlier one."""
    put_setting(session, _KEY, orjson.dumps(asdict(new)).decode())


def get_setting(session: Session, key: str) -> str | None:
    """A setting of the store itself, or None."""
    row = session.row(_GET, {"key": key})
    return row[0] if row else None


def put_setting(session: Session, key: str, value: str) -> None:
    """Set a setting of the store itself."""
    session.run(_DELETE, {"k": key})
    session.run(_INSERT, {"key": key, "value": value})


@lru_cache
def _binding(text: str) -> Binding:
    """The binding from its JSON text; cached, because every transaction reads it."""
    try:
        return Binding(**orjson.loads(text))
    except (TypeError, orjson.JSONDecodeError) as error:
        what = f"The store's record of its warehouse cannot be understood: {text!r}."
        raise StoreCorrupt(what, hint="Restore the store from a backup or rebuild it.") from error
