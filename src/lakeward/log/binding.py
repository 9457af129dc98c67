"""Settings of the store itself, among them the warehouse to which it is bound.

A marker file in the warehouse holds the same random identity as the store's setting.
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
    """The path or URL of the warehouse and the store's `Database.place` when they were bound."""

    identity: str
    """The random id in the store's setting and in the warehouse's marker file."""
    warehouse: str
    store: str
    spelled: str = ""
    """The warehouse as the user wrote it, perhaps with symbolic links."""


def read(session: Session) -> Binding | None:
    """Return the warehouse to which the store is bound; None if it has not been bound yet."""
    text = get_setting(session, _KEY)
    if text is None:
        return None
    return _binding(text)


def write(session: Session, new: Binding) -> None:
    """Record the warehouse to which the store is bound; replace an earlier one."""
    put_setting(session, _KEY, orjson.dumps(asdict(new)).decode())


def get_setting(session: Session, key: str) -> str | None:
    """Return the value of a setting of the store itself, or None."""
    row = session.row(_GET, {"key": key})
    return row[0] if row else None


def put_setting(session: Session, key: str, value: str) -> None:
    """Set the value of a setting of the store itself."""
    session.run(_DELETE, {"k": key})
    session.run(_INSERT, {"key": key, "value": value})


@lru_cache
def _binding(text: str) -> Binding:
    """Parse a binding from JSON text; cached, because every transaction reads it."""
    try:
        return Binding(**orjson.loads(text))
    except (TypeError, orjson.JSONDecodeError) as error:
        what = f"The store's record of its warehouse cannot be understood: {text!r}."
        raise StoreCorrupt(what, hint="Restore the store from a backup or rebuild it.") from error
