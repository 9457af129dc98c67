"""Names of the databases in which a transaction registers its Delta tables.

Spark ignores the case of names, and tables without a namespace are in `default`. So two tables of
the lake may have one name in Spark. Each table of a name gets a database of its own then.
"""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "default"
"""The namespace of tables whose names have no namespace."""
_WRITTEN: Final = "__written"
"""The suffix of the names of databases whose tables are branches, which are written."""


class Databases:
    """The databases of one transaction, all of whose names begin with its tag."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        # The table that each name in Spark means: its namespace, name, and whether it is written.
        self._owners: dict[tuple[str, str], tuple[str, str, bool]] = {}

    def of(self, namespace: str, name: str, *, written: bool) -> str:
        """Return the database of a Delta table, for reading or for writing: always the same."""
        first = f"{self._tag}_{namespace or NAMESPACE}{_WRITTEN if written else ''}"
        own, number = (namespace, name, written), 1
        while True:
            database = first if number == 1 else f"{first}__{number}"
            key = (database.lower(), name.lower())
            if self._owners.setdefault(key, own) == own:
                return database
            number += 1
