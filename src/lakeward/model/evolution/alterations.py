"""The changes of a table's definition that can be requested, as frozen values.

Columns are given by paths: `address.street` is a member of a struct, `items.element.price` a member
of the elements of a list, `prices.value` the value of a map. `str` of a change is the text that the
history shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lakeward.model.constraints import Constraint, ForeignKey, NotNull, OnViolation, Unique


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a column, or a member of a struct.

    Attributes:
        path: The path of the new column.
        type: The Arrow type.
        default: A SQL literal that is written if data lacks the column.
        nullable: Whether a value may be null.
        comment: A description for users.
        after: The column that the new one follows; None for the last position.
        first: Whether the new column becomes the first of its level.
        backfill: Whether existing rows get the default, too.
    """

    path: str
    type: pa.DataType
    default: str | None = None
    nullable: bool = True
    comment: str | None = None
    after: str | None = None
    first: bool = False
    backfill: bool = False

    def __str__(self) -> str:
        required = "" if self.nullable else " not null"
        default = "" if self.default is None else f" default {self.default}"
        return f"add column {self.path} {self.type}{required}{default}{_place(self)}"


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column; `name` replaces the last part of its path."""

    path: str
    name: str

    def __str__(self) -> str:
        return f"rename column {self.path} to {self.name}"


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column; its values are kept in the files that have them."""

    path: str

    def __str__(self) -> str:
        return f"drop column {self.path}"


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Move a column to another position among its siblings."""

    path: str
    after: str | None = None
    first: bool = False

    def __str__(self) -> str:
        return f"alter column {self.path}{_place(self)}"


@dataclass(frozen=True, slots=True)
class ChangeType:
    """Change the type of a column to a wider one."""

    path: str
    type: pa.DataType

    def __str__(self) -> str:
        return f"alter column {self.path} type {self.type}"


@dataclass(frozen=True, slots=True)
class SetNullable:
    """Allow or forbid nulls in a column."""

    path: str
    nullable: bool

    def __str__(self) -> str:
        return f"alter column {self.path} {'drop' if self.nullable else 'set'} not null"


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Set the SQL literal that is written where data lacks a column; None removes it."""

    path: str
    default: str | None

    def __str__(self) -> str:
        how = "DROP default" if self.default is None else f"set default {self.default}"
        return f"alter column {self.path} {how}"


@dataclass(frozen=True, slots=True)
class SetComment:
    """Set the comment of a column, or of the table if `path` is None; None removes the comment."""

    path: str | None
    comment: str | None

    def __str__(self) -> str:
        return "comment on table" if self.path is None else f"alter column {self.path} comment"


@dataclass(frozen=True, slots=True)
class SetProperty:
    """Set a table property."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"set {self.key} = {self.value}"


@dataclass(frozen=True, slots=True)
class UnsetProperty:
    """Remove a table property."""

    key: str

    def __str__(self) -> str:
        return f"unset {self.key}"


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """Add a check that every row must satisfy."""

    name: str
    expression: str

    def __str__(self) -> str:
        return f"add constraint {self.name} check ({self.expression})"


@dataclass(frozen=True, slots=True)
class AddRule:
    """Add a key, or a check or a required column whose violation may not fail the transaction."""

    name: str
    rule: Constraint

    def __str__(self) -> str:
        match self.rule:
            case Unique(columns):
                what = f"unique ({', '.join(columns)})"
            case ForeignKey(columns, references, key):
                target = f"{references} ({', '.join(key)})"
                what = f"foreign key ({', '.join(columns)}) references {target}"
            case NotNull(columns):
                what = f"not null ({', '.join(columns)})"
            case _:
                what = f"check ({self.rule.expression})"
        reaction = self.rule.on_violation
        also = "" if reaction == OnViolation.FAIL else f" on violation {reaction}"
        return f"add constraint {self.name} {what}{also}"


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """Drop a constraint."""

    name: str

    def __str__(self) -> str:
        return f"drop constraint {self.name}"


@dataclass(frozen=True, slots=True)
class AddPartitionField:
    """Add a term such as `day(ts)` by which files written from now on are partitioned."""

    term: str

    def __str__(self) -> str:
        return f"add partition field {self.term}"


@dataclass(frozen=True, slots=True)
class DropPartitionField:
    """Drop a term by which files are partitioned."""

    term: str

    def __str__(self) -> str:
        return f"drop partition field {self.term}"


@dataclass(frozen=True, slots=True)
class EnableFeature:
    """Enable a feature of the table's format."""

    feature: str

    def __str__(self) -> str:
        return f"enable {self.feature}"


Alteration: TypeAlias = (
    AddColumn
    | RenameColumn
    | DropColumn
    | MoveColumn
    | ChangeType
    | SetNullable
    | SetDefault
    | SetComment
    | SetProperty
    | UnsetProperty
    | AddConstraint
    | AddRule
    | DropConstraint
    | AddPartitionField
    | DropPartitionField
    | EnableFeature
)


def _place(change: AddColumn | MoveColumn) -> str:
    if change.first:
        return " first"
    return "" if change.after is None else f" after {change.after}"
