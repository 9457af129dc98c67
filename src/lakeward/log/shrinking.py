"""Releases free pages of the store's file to the disk, in small steps.

SQLite keeps the pages of deleted rows for later rows. Stores are created so that free pages can be
cut off step by step, each in a short write session. PostgreSQL does this by itself.
"""

from __future__ import annotations

import time
from typing import Final

from lakeward.log.database import Database
from lakeward.log.statement import Statement

_PAGES: Final = 250
"""Pages that are released in one step, which delays writers by some milliseconds."""
_FEW: Final = 1_000
"""Free pages that are left in the file for later rows."""
_PAUSE_SECONDS: Final = 0.001
_FREE = Statement("PRAGMA freelist_count")
_MODE = Statement("PRAGMA auto_vacuum")
_CUT = Statement(f"PRAGMA incremental_vacuum({_PAGES})")
_INCREMENTAL: Final = 2


def shrink(database: Database) -> int:
    """Release free pages of the store's file until few are left; return how many were released."""
    if database.dialect != "sqlite":
        return 0
    gone = 0
    while True:
        with database.write(durable=False) as session:
            free = int(session.row(_FREE)[0])
            if free <= _FEW or int(session.row(_MODE)[0]) != _INCREMENTAL:
                return gone
            # Each row that is fetched frees one more page.
            session.rows(_CUT)
            left = int(session.row(_FREE)[0])
        if left >= free:
            return gone
        gone += free - left
        time.sleep(_PAUSE_SECONDS)
