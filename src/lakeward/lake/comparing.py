"""Compares two tables or branches by their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.lake.branch import Branch, BranchTable
from lakeward.log import heads
from lakeward.model import arguments
from lakeward.read.row_diff import Comparable, RowDiff, table_rows
from lakeward.read.snapshot import TableSnapshot, at_version


def compared(
    context: LakeContext,
    find: Callable[[str], Any],
    a: object,
    b: object,
    *,
    key: str | Sequence[str] | None,
    sample: int,
) -> RowDiff | dict[str, RowDiff]:
    """Return the rows by which two tables differ; for branches, by table name."""
    arguments.whole(sample, "sample")
    if isinstance(a, Branch) and (b is None or isinstance(b, Branch)):
        out = {}
        for name, left, right in _pairs(context, a, b):
            own = key if key is None or _has(right, key) else None
            out[name] = table_rows(left, right, key=own, sample=sample)
        return out
    if b is None or isinstance(a, Branch) or isinstance(b, Branch):
        what = "Only two tables, or branches, can be compared."
        hint = "Give a table of the branch: lake.branch(...).table(...)."
        raise InvalidInput(what, hint=hint)
    left, right = (_table(one, find, p) for one, p in ((a, "a"), (b, "b")))
    return table_rows(left, right, key=key, sample=sample)


def _pairs(
    context: LakeContext, one: Branch, other: Branch | None
) -> list[tuple[str, Comparable, Comparable]]:
    if other is None:
        return [(t.name, _base(context, t), t) for t in one.tables()]
    theirs = {t.name: t for t in other.tables()}
    found: list[tuple[str, Comparable, Comparable]] = [
        (t.name, t, theirs[t.name]) for t in one.tables() if t.name in theirs
    ]
    if not found:
        what = f"The branches {one.name} and {other.name} have no table in common."
        raise InvalidInput(what)
    return found


def _base(context: LakeContext, table: BranchTable) -> TableSnapshot:
    """Return the version from which a branch's table was made."""
    with context.database.read() as session:
        head = heads.ever_by_id(session, table.table_id)
        return at_version(context, session, head, table.base_version)


def _has(table: Comparable, key: str | Sequence[str]) -> bool:
    names = [key] if isinstance(key, str) else list(key)
    return all(n in table.schema.by_name for n in names)


def _table(given: object, find: Callable[[str], Any], parameter: str) -> Comparable:
    if isinstance(given, str):
        found: Comparable = find(given)
        return found
    if hasattr(given, "to_reader") and hasattr(given, "schema") and hasattr(given, "name"):
        return given
    what = f"`{parameter}` is {type(given).__name__}, and not a table."
    raise InvalidInput(what, hint="Give a name, a table or a snapshot.", parameter=parameter)
