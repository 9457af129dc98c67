"""The kinds of conflicts."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

HINT: Final = "Nothing was committed. Run the transaction again; lake.run does so by itself."


class Kind(StrEnum):
    """The kind of a conflict (`Conflict.kind`): what the other commit did."""

    DEFINITION = "definition"
    PATH = "path"
    REMOVED = "removed"
    ADDED = "added"
    READ = "read"
    MOVED = "moved"
    VACUUMED = "vacuumed"
    VERSION = "version"
