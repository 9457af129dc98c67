"""The kinds of constraints that users declare, and the actions on a violation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, TypeAlias

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.names import TableName

UNIQUE: Final = "lakeward.unique."
FOREIGN_KEY: Final = "lakeward.foreign-key."
CHECK: Final = "lakeward.check."
NOT_NULL: Final = "lakeward.not-null."
PREFIXES: Final = (UNIQUE, FOREIGN_KEY, CHECK, NOT_NULL)


class OnViolation(StrEnum):
    """What happens when rows violate a constraint."""

    FAIL = "fail"
    QUARANTINE = "quarantine"
    WARN = "warn"


@dataclass(frozen=True)
class Check:
    """A condition that every row must satisfy.

    Attributes:
        expression: A SQL boolean expression. A row for which it is null violates it.
        on_violation: `fail`, `quarantine` or `warn`.
    """

    prefix: ClassVar[str] = CHECK
    expression: str
    on_violation: str = OnViolation.FAIL

    def __post_init__(self) -> None:
        _set(self, on_violation=arguments.choice(self.on_violation, OnViolation, "on_violation"))


@dataclass(frozen=True, init=False)
class Unique:
    """Columns whose values no two rows share. Rows with a null in one of them are not compared.

    Attributes:
        columns: One or more.
        on_violation: `fail`, `quarantine` or `warn`.
    """

    prefix: ClassVar[str] = UNIQUE
    columns: tuple[str, ...]
    on_violation: str

    def __init__(self, *columns: str, on_violation: str = OnViolation.FAIL) -> None:
        _set(
            self,
            columns=_names(columns, "columns"),
            on_violation=arguments.choice(on_violation, OnViolation, "on_violation"),
        )


@dataclass(frozen=True, init=False)
class ForeignKey:
    """Columns whose values must exist as a key of another table. Rows with a null in one pass.

    Attributes:
        columns: One or more.
        references: The other table.
        key: The other table's columns, which are a unique key there; the same names unless given.
        on_violation: `fail`, `quarantine` or `warn`.
    """

    prefix: ClassVar[str] = FOREIGN_KEY
    columns: tuple[str, ...]
    references: str
    key: tuple[str, ...]
    on_violation: str

    def __init__(
        self,
        *columns: str,
        references: str,
        key: str | Sequence[str] = (),
        on_violation: str = OnViolation.FAIL,
    ) -> None:
        own = _names(columns, "columns")
        other = _names([key] if isinstance(key, str) else key, "key") if key else own
        if len(other) != len(own):
            what = f"A foreign key of {len(own)} columns cannot refer to {len(other)} columns."
            raise InvalidInput(what, hint="Name one column of the other table for each.")
        _set(
            self,
            columns=own,
            references=str(TableName.parse(references)),
            key=other,
            on_violation=arguments.choice(on_violation, OnViolation, "on_violation"),
        )


@dataclass(frozen=True, init=False)
class NotNull:
    """What happens to rows without a value in required columns.

    Attributes:
        columns: One or more, which the table requires.
        on_violation: `fail`, as for every required column, or `quarantine`.
    """

    prefix: ClassVar[str] = NOT_NULL
    columns: tuple[str, ...]
    on_violation: str

    def __init__(self, *columns: str, on_violation: str = OnViolation.FAIL) -> None:
        reaction = arguments.choice(on_violation, OnViolation, "on_violation")
        names = tuple(arguments.texts(columns, "columns"))
        if not names or len(set(names)) < len(names):
            what = "A NotNull needs at least one column, and each of them once."
            raise InvalidInput(what, hint='Write lw.NotNull("id", on_violation="quarantine").')
        if reaction == OnViolation.WARN:
            what = (
                "A missing value in a required column cannot only be warned of: the table's schema"
                " promises every reader that there is none."
            )
            hint = (
                "Use on_violation='quarantine', or let the column be nullable and write"
                f" lw.Check('{names[0]} IS NOT NULL', on_violation='warn')."
            )
            raise InvalidInput(what, hint=hint, column=names[0], parameter="on_violation")
        _set(self, columns=names, on_violation=reaction)


Constraint: TypeAlias = Check | Unique | ForeignKey | NotNull


def _names(columns: Sequence[str], parameter: str) -> tuple[str, ...]:
    names = tuple(arguments.texts(columns, parameter))
    if not names or len(set(names)) < len(names):
        what = "A key needs at least one column, and each of them once."
        raise InvalidInput(what, hint='Write lw.Unique("id") or lw.Unique("a", "b").')
    return names


def _set(target: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(target, name, value)
