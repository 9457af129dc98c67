"""Numbers of files by size: of versions, and what they gain and lose from one to another."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.log.totals import GAINED, IN_VERSION, LOST

_KIB: Final = 1024
BOUNDS: Final = tuple(_KIB * 4**power for power in range(3, 12))
"""Lower bounds of the size classes after the first, from 64 KiB to 4 GiB."""
_CASES = " ".join(f"WHEN size < {bound} THEN {number}" for number, bound in enumerate(BOUNDS))


def _statement(condition: str) -> Statement:
    return Statement(
        f"""SELECT CASE {_CASES} ELSE {len(BOUNDS)} END AS size_class, COUNT(*), SUM(size)
        FROM lakeward_file WHERE {condition}
        GROUP BY size_class"""  # noqa: S608  our numbers
    )


_AT: Final = _statement(IN_VERSION)
_GAINED: Final = _statement(GAINED)
_LOST: Final = _statement(LOST)


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


Classes: TypeAlias = tuple[SizeClass, ...]


def at(session: Session, table_id: int, version: int) -> Classes:
    """Return all size classes with their files, smallest first, including empty ones."""
    return _classes(session, _AT, {"table_id": table_id, "version": version})


def between(session: Session, table_id: int, before: int, version: int) -> tuple[Classes, Classes]:
    """Return the size classes of the files that a version has and an older one has not, and back.

    They are right only if neither version is retired.
    """
    params = {"table_id": table_id, "before": before, "version": version}
    return _classes(session, _GAINED, params), _classes(session, _LOST, params)


def changed(known: Classes, added: Classes, removed: Classes) -> Classes:
    """Return the size classes after files were added and others removed."""
    return tuple(
        SizeClass(
            one.at_least,
            one.below,
            one.files + new.files - old.files,
            one.bytes + new.bytes - old.bytes,
        )
        for one, new, old in zip(known, added, removed, strict=True)
    )


def _classes(session: Session, statement: Statement, params: dict[str, int]) -> Classes:
    found = {int(k): (int(n), int(size)) for k, n, size in session.rows(statement, params)}
    edges = (0, *BOUNDS)
    return tuple(
        SizeClass(low, BOUNDS[k] if k < len(BOUNDS) else None, *found.get(k, (0, 0)))
        for k, low in enumerate(edges)
    )
