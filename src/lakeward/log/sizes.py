"""How many files of a version have which size, counted by the database."""

from __future__ import annotations

from typing import Final, NamedTuple

from lakeward.log.database import Session
from lakeward.log.statement import Statement

_KIB: Final = 1024
BOUNDS: Final = tuple(_KIB * 4**power for power in range(3, 12))
"""Sizes at which a new class begins, from 64 KiB to 4 GiB."""
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
        at_least: Bytes that each of them has at least.
        below: Each of them has fewer bytes than this; None for the largest class.
        files: How many there are.
        bytes: Of all of them.
    """

    at_least: int
    below: int | None
    files: int
    bytes: int


def size_classes(session: Session, table_id: int, version: int) -> list[SizeClass]:
    """Every class of sizes, smallest first, also those that no file is of."""
    params = {"table_id": table_id, "version": version}
    found = {int(k): (int(n), int(size)) for k, n, size in session.rows(_COUNT, params)}
    edges = (0, *BOUNDS)
    return [
        SizeClass(low, BOUNDS[k] if k < len(BOUNDS) else None, *found.get(k, (0, 0)))
        for k, low in enumerate(edges)
    ]
