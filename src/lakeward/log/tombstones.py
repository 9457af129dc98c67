"""Files that were removed and are in the table again, such as by a restore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeward.log.codec import loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement

# CROSS JOIN and `+ 0` make SQLite look up each removed path by the index over paths, instead of
# reading all files of the version, once or for each path.
_LIVE_AGAIN = Statement(
    """SELECT f.path, f.deletion_vector
    FROM (SELECT DISTINCT path FROM lakeward_file WHERE table_id = :table_id
          AND removed_version > :after AND removed_version <= :version) gone
    CROSS JOIN lakeward_file f
    WHERE f.table_id = :table_id AND f.path = gone.path
      AND f.removed_version + 0 > :version AND f.added_version + 0 <= :version"""
)


def live_again(
    session: Session, table_id: int, after: int, version: int
) -> list[tuple[str, Mapping[str, Any] | None]]:
    """Return the files of `version` with an entry that was removed after `after`.

    Each is its path and its deletion vector, which may differ from that of the removed entry.
    """
    params = {"table_id": table_id, "after": after, "version": version}
    rows = session.rows(_LIVE_AGAIN, params)
    return [(path, loads(vector) if vector else None) for path, vector in rows]
