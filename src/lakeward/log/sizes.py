"""Numbers of files of a version by size, counted by the database."""

from __future__ import annotations

from typing import Final, NamedTuple

from lakeward.log.database import Session
from lakeward.log.statement import Statement

_KIB: Final = 1024
BOUNDS: Final = tuple(_KIB * 4**power for power in range(3, 12))
"""Lower bounds of the size classes after the first, from 64 KiB to 4 GiB."""
_CASES = " ".join(f"WHEN size < {bound} THEN {number}" for number, bound in enumerate(BOUNDS))
_COUNT = Statement(
    f"""SELECT CASE {_CASES} ELSE {len(BOUNDS)} END AS size_class, COUNT(*), SUM(size)
    FROM lakeward_file
    WHERE table_id = :table_id AND added_version <= :version AND removed_version > :version
    GROUP BY size_class ORDER BY size_class"""  # noqa: S608  our numbers
)


class SizeClass(NamedTuple):
    """Files of about one size.

    Attributes:
        at_least: The smallest size in bytes of the class.
        below: The size in bytes that each file is below; None for the largest class.
        files: The number of files.
        bytes: The total size of the files.
    """

    at_least: int
    below: int | None
    files: int
    bytes: int


def size_classes(session: Session, table_id: int, version: int) -> list[SizeClass]:
    """Return all size classes with their files, smallest first, including empty ones."""
    params = {"table_id": table_id, "version": version}
    found = {int(k): (int(n), int(size)) for k, n, size in session.rows(_COUNT, params)}
    edges = (0, *BOUNDS)
    return [
        SizeClass(low, BOUNDS[k] if k < len(BOUNDS) else None, *found.get(k, (0, 0)))
        for k, low in enumerate(edges)
    ]
