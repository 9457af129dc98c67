"""Keep positions of drops apart from those of commits: the next commit follows the newest drop.

Every commit looks up the greatest position of a drop, by an index.
"""

from __future__ import annotations

from lakeward.log import positions
from lakeward.log.database import Session

STATEMENTS = ("CREATE INDEX lakeward_head_dropped ON lakeward_head (dropped_position)",)


def run(session: Session) -> None:
    """Continue the numbering after the drops of older versions, which took no position."""
    positions.continue_after(session)
