"""Parses `VERSION AS OF` and `TIMESTAMP AS OF` after a table's name in SQL, for every engine.

A version is a number, or a tag in quotes; a time is ISO 8601 in quotes, or seconds since 1970. FOR
may come first, and SYSTEM_VERSION and SYSTEM_TIME mean the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lakeward.context import LakeContext
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.read import moments
from lakeward.read.snapshot import TableSnapshot

_CLAUSE: Final = re.compile(
    r"\s+(?:FOR\s+)?(?:SYSTEM_)?(?P<kind>VERSION|TIMESTAMP|TIME)\s+AS\s+OF\s+"
    r"(?:(?P<number>\d+)\b|'(?P<text>(?:[^'\\]|'')*)'|\"(?P<quoted>[^\"\\]*)\")",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class AsOf:
    """A point in a table's history, as given in a statement.

    Attributes:
        value: A version, a tag or a time.
        is_time: Whether `value` is a time.
    """

    value: int | str
    is_time: bool


def clause_at(text: str, start: int) -> tuple[AsOf, int] | None:
    """Parse the clause at a position; return it and the position after it; None if there is none.

    Expressions that have to be evaluated are not supported.
    """
    found = _CLAUSE.match(text, start)
    if found is None:
        return None
    is_time = found["kind"].upper() != "VERSION"
    if found["number"] is not None:
        return AsOf(int(found["number"]), is_time), found.end()
    given = found["text"].replace("''", "'") if found["text"] is not None else found["quoted"]
    is_number = given.isascii() and given.isdecimal() and not is_time
    return AsOf(int(given) if is_number else given, is_time), found.end()


def at(context: LakeContext, session: Session, head: Head, place: AsOf) -> TableSnapshot:
    """Return a table at a point in its history. Raises the errors of `moments.at`."""
    if place.is_time:
        seconds = place.value * 1000 if isinstance(place.value, int) else place.value
        return moments.at(context, session, head, timestamp=seconds)
    if isinstance(place.value, int):
        return moments.at(context, session, head, version=place.value)
    return moments.at(context, session, head, tag=place.value)
