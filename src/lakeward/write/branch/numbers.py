"""Reserves values of identity columns for rows that other engines add on a branch.

Such an engine assigns values itself, from the high watermark that it finds on the branch. So a
range of values is reserved for each branch, and the branch begins with the watermark before it.
Values that a transaction's branch does not use are released, if no later values were reserved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import Conflict
from lakeward.formats.registry import format_of
from lakeward.log import identity
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.write.commit.kinds import HINT, Kind

RANGE: Final = 2**30
"""How many values are reserved for each column of a branch."""


def take_ranges(context: LakeContext, head: Head, definition: Definition) -> dict[int, int]:
    """Reserve values for a new branch; return its first high watermarks, by column id."""
    if not definition.identity:
        return {}
    marks: dict[int, int] = {}
    with context.database.write(durable=context.database.is_remote) as session:
        known = format_of(head).identity_marks(session, head)
        for own, counted in definition.identity.items():
            least = counted.place_after(known[own]) if own in known else 0
            first = identity.take(session, head.uuid, own, RANGE, at_least=least)
            if first:
                marks[own] = counted.value(first - 1)
    return marks


def settle_ranges(
    context: LakeContext,
    head: Head,
    definition: Definition,
    *,
    begun: Mapping[int, int],
    ended: Mapping[int, int],
    give_back: bool,
) -> None:
    """Check, by its high watermarks, that a branch used only values of its range.

    `begun` and `ended` are the watermarks at first and now. If the branch used more values, these
    are reserved too, unless others have reserved some of them: then it raises `Conflict`. With
    `give_back`, unused values are released, because no more rows are added to the branch.
    """
    for own, counted in definition.identity.items():
        first = counted.place_after(begun[own]) if own in begun else 0
        used = max(first, counted.place_after(ended[own]) if own in ended else 0)
        until = first + RANGE
        if used <= until and not give_back:
            continue
        with context.database.write(durable=context.database.is_remote) as session:
            moved = identity.move(session, head.uuid, own, known=until, taken=used)
        if used > until and not moved:
            name = definition.schema.by_id[own].name
            what = f"More than {RANGE} rows were added to {head.name} at once, and others took"
            what += f" values of its identity column {name} meanwhile."
            facts = {"table": str(head.name), "kind": Kind.ADDED, "reason": what, "column": name}
            raise Conflict(what, hint=HINT, **facts)
