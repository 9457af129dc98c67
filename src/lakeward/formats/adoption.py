"""The result of reading an existing table, for its adoption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lakeward.log.database import Session
from lakeward.model.history import TableHistory

ADOPT_TABLE: Final = "ADOPT TABLE"
"""The operation of the commit by which a lake adopts a table, and the action in its audit trail."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """An existing table, read completely and ready to be inserted into the log.

    Attributes:
        location: The table's directory, as the log stores it.
        history: All versions that the table's files still have.
        guarded: Whether the table already has the guard, which keeps other writers out.
        pointer: The metadata document of the newest version, if the format has one.
        enter: Called with the session that inserts the table, before anything is inserted.
    """

    location: str
    history: TableHistory
    guarded: bool
    pointer: str | None = None
    enter: Callable[[Session], None] | None = None
