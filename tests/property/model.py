"""Tables as multisets of rows, and what each operation makes of them: plain Python, no lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

Row: TypeAlias = tuple[int, int, str]
"""A key, the part that follows from it, and a value that no other operation writes."""
State: TypeAlias = Counter[Row]

COLUMNS = ("k", "p", "v")
SCHEMA = {"k": "int64", "p": "int64", "v": "string"}


def row(key: int, value: str) -> Row:
    """A row with a key."""
    return key, key % 3, value


@dataclass(frozen=True)
class Where:
    """A condition on one column.

    Attributes:
        column: `k` or `p`.
        sign: `<`, `>=`, `=` or `IN`.
        values: One value, or several for `IN`.
    """

    column: str
    sign: str
    values: tuple[int, ...]

    @property
    def text(self) -> str:
        """As SQL."""
        if self.sign == "IN":
            return f"{self.column} IN ({', '.join(map(str, self.values))})"
        return f"{self.column} {self.sign} {self.values[0]}"

    def holds(self, found: Row) -> bool:
        """Whether it is true for a row."""
        value = found[0] if self.column == "k" else found[1]
        match self.sign:
            case "<":
                return value < self.values[0]
            case ">=":
                return value >= self.values[0]
            case _:
                return value in self.values


@dataclass(frozen=True)
class Append:
    """Adds rows."""

    table: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Overwrite:
    """Replaces all rows, or those of a condition."""

    table: str
    rows: tuple[Row, ...]
    where: Where | None


@dataclass(frozen=True)
class Delete:
    """Removes the rows of a condition."""

    table: str
    where: Where


@dataclass(frozen=True)
class Update:
    """Adds a mark to the values of the rows of a condition, or of all rows."""

    table: str
    where: Where | None
    mark: str


@dataclass(frozen=True)
class Merge:
    """Brings rows together by key; the data has each key once.

    Attributes:
        table: The table.
        rows: The data.
        matched: `update`, `delete` or None.
        not_matched: `insert` or None.
        alone: `delete` or None: what becomes of rows of the table that have no partner.
    """

    table: str
    rows: tuple[Row, ...]
    matched: str | None
    not_matched: str | None
    alone: str | None


@dataclass(frozen=True)
class Read:
    """Looks at the rows of a condition, or at all."""

    table: str
    where: Where | None


Change: TypeAlias = Append | Overwrite | Delete | Update | Merge
Operation: TypeAlias = Change | Read


def applied(state: State, change: Change) -> State:
    """The rows after a change."""
    match change:
        case Append(_, rows):
            return state + Counter(rows)
        case Overwrite(_, rows, where):
            return _without(state, where) + Counter(rows)
        case Delete(_, where):
            return _without(state, where)
        case Update(_, where, mark):
            out: State = Counter()
            for found, count in state.items():
                hit = where is None or where.holds(found)
                out[(found[0], found[1], found[2] + mark) if hit else found] += count
            return out
        case Merge():
            return _merged(state, change)


def applied_all(state: State, changes: Iterable[Change]) -> State:
    """The rows after several changes."""
    for change in changes:
        state = applied(state, change)
    return state


def selected(state: State, where: Where | None) -> State:
    """The rows of a condition."""
    return Counter({r: n for r, n in state.items() if where is None or where.holds(r)})


def minds(change: Change, found: Row) -> bool:
    """Whether a change would have treated a row had it been there: somebody must notice it."""
    match change:
        case Append():
            return False
        case Overwrite(_, _, where) | Delete(_, where) | Update(_, where, _):
            return where is None or where.holds(found)
        case Merge(_, rows, _, _, alone):
            return alone is not None or found[0] in {r[0] for r in rows}


def depends_on(operation: Operation, found: Row) -> bool:
    """Whether what an operation did or told depends on a row."""
    if isinstance(operation, Read):
        return operation.where is None or operation.where.holds(found)
    if isinstance(operation, Update | Merge):
        return minds(operation, found)
    return False


def _without(state: State, where: Where | None) -> State:
    return state - selected(state, where)


def _merged(state: State, merge: Merge) -> State:
    data = {r[0]: r for r in merge.rows}
    out: State = Counter()
    for found, count in state.items():
        partner = data.get(found[0])
        if partner is None:
            out[found] += 0 if merge.alone == "delete" else count
        elif merge.matched != "delete":
            out[partner if merge.matched == "update" else found] += count
    if merge.not_matched == "insert":
        known = {r[0] for r in state}
        out.update(r for k, r in data.items() if k not in known)
    return +out
