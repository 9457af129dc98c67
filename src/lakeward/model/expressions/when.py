"""The clauses of a merge, as users write them, and their check."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias

from lakeward.errors import InvalidInput
from lakeward.model import arguments

NewValue: TypeAlias = str | int | float | bool | Decimal | date | None
"""The new value of a column: an SQL expression as text, or a plain Python value."""
Action: TypeAlias = str | Mapping[str, NewValue]
"""`update`, `insert`, `delete`, or columns with their new values."""


@dataclass(frozen=True, slots=True)
class When:
    """An action for the rows for which a condition is true.

    Attributes:
        condition: An SQL expression over columns of `target` and `source`.
        action: `update`, `insert`, `delete`, or columns with their new values.
    """

    condition: str
    action: Action


ActionOrWhen: TypeAlias = Action | When
Actions: TypeAlias = ActionOrWhen | Sequence[ActionOrWhen] | None
"""No action, one, or several: the first whose condition is true applies."""


class Does(StrEnum):
    """The effect of a clause on a row."""

    UPDATE = "update"
    INSERT = "insert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of a merge.

    Without a condition it applies to all rows; without values it sets all columns.
    """

    does: Does
    condition: str | None = None
    values: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Clauses:
    """All clauses of a merge; of each kind, the first whose condition is true applies."""

    matched: tuple[Clause, ...]
    not_matched: tuple[Clause, ...]
    not_matched_by_source: tuple[Clause, ...]

    @classmethod
    def of(cls, matched: Actions, not_matched: Actions, not_matched_by_source: Actions) -> Clauses:
        """Return the clauses for a user's arguments; raise `InvalidInput` if they are wrong."""
        found = cls(
            _clauses("matched", matched),
            _clauses("not_matched", not_matched),
            _clauses("not_matched_by_source", not_matched_by_source),
        )
        if not (found.matched or found.not_matched or found.not_matched_by_source):
            what = "This merge changes nothing."
            hint = "Give matched=, not_matched= or not_matched_by_source=."
            raise InvalidInput(what, hint=hint)
        return found

    @property
    def copies(self) -> bool:
        """Whether a clause writes columns of the data as they are, without expressions."""
        writes = (*self.matched, *self.not_matched)
        return any(c.values is None and c.does is not Does.DELETE for c in writes)


def key_names(on: str | Sequence[str], known: Collection[str]) -> list[str] | None:
    """Return the key columns if `on` has column names; None if it is a condition."""
    if isinstance(on, str):
        plain = on in known or not any(c in on for c in "=<>() ")
        return [on] if plain else None
    names = arguments.texts(on, "on")
    if not names:
        what = "A merge needs the columns that make its key."
        raise InvalidInput(what, hint="Give on=.")
    return names


def new_values(given: object, parameter: str) -> dict[str, str]:
    """Return an SQL expression by column; numbers, booleans, dates and None become literals."""
    return {
        name: _expression(value, name, parameter)
        for name, value in arguments.mapping(given, parameter).items()
    }


def _expression(value: object, column: str, parameter: str) -> str:
    match value:
        case str():
            return value
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case Decimal() if value.is_finite():
            # Without an exponent, which would make a double of it.
            return f"{value:f}"
        case float() if math.isfinite(value):
            return f"{value!r}D"
        case datetime():
            zone = "TIMESTAMP" if value.tzinfo else "TIMESTAMP_NTZ"
            return f"{zone} '{value.isoformat(' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case _:
            what = f"{parameter}= gives column {column} a value of type {type(value).__name__}."
            hint = (
                "Give a number, True, False, None, a date, or an SQL expression as text; text as"
                " a value is quoted inside it: \"'bob'\"."
            )
            raise InvalidInput(what, hint=hint, column=column, parameter=parameter)


_WORDS: Final = {
    "matched": (Does.UPDATE, Does.DELETE),
    "not_matched": (Does.INSERT,),
    "not_matched_by_source": (Does.DELETE,),
}


def _clauses(parameter: str, given: object) -> tuple[Clause, ...]:
    if given is None:
        return ()
    items: Sequence[object] = [given]
    if isinstance(given, Sequence) and not isinstance(given, str):
        items = given
    found = tuple(_clause(parameter, item) for item in items)
    if any(clause.condition is None for clause in found[:-1]):
        what = f"A clause of {parameter}= is never reached: one before it takes all rows."
        raise InvalidInput(what, hint="Put lw.When(condition, action) first.")
    return found


def _clause(parameter: str, given: object) -> Clause:
    condition = None
    if isinstance(given, When):
        condition, given = given.condition, given.action
    words = _WORDS[parameter]
    if isinstance(given, Mapping) and given:
        does = Does.INSERT if Does.INSERT in words else Does.UPDATE
        return Clause(does, condition, new_values(given, parameter))
    if isinstance(given, str) and given in words:
        return Clause(Does(given), condition)
    what = f"{parameter}= has no action {given!r}."
    hint = (
        f"Use {', '.join(map(repr, map(str, words)))}, or a dict of columns and their new values."
    )
    raise InvalidInput(what, hint=hint)
