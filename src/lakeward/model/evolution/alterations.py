"""The changes of a table's definition that can be asked for, as frozen values.

Columns are named by paths: `address.street` is a member of a struct, `items.element.price` one of
the elements of a list, `prices.value` the value of a map. `str` of a change is how history shows
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lakeward.model.constraints import Constraint, ForeignKey, Unique


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column, or a new member of a struct.

    Attributes:
        path: The path of the new column.
        type: The Arrow type.
        default: A SQL literal that is written if data lacks the column.
        nullable: Whether a value may be null.
        comment: A description for users.
        after: The column that it follows; None for the last position.
        first: Whether it becomes the first column of its level.
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
    """Another name for a column; `name` is the last part of its path."""

    path: str
    name: str

    def __str__(self) -> str:
        return f"rename column {self.path} to {self.name}"


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column that goes; its values stay in the files that have them."""

    path: str

    def __str__(self) -> str:
        return f"drop column {self.path}"


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Another place among the siblings of a column."""

    path: str
    after: str | None = None
    first: bool = False

    def __str__(self) -> str:
        return f"alter column {self.path}{_place(self)}"


@dataclass(frozen=True, slots=True)
class ChangeType:
    """A wider type for a column."""

    path: str
    type: pa.DataType

    def __str__(self) -> str:
        return f"alter column {self.path} type {self.type}"


@dataclass(frozen=True, slots=True)
class SetNullable:
    """Whether a column's values may be null."""

    path: str
    nullable: bool

    def __str__(self) -> str:
        return f"alter column {self.path} {'drop' if self.nullable else 'set'} not null"


@dataclass(frozen=True, slots=True)
class SetDefault:
    """The SQL literal that is written where data lacks a column; None for none."""

    path: str
    default: str | None

    def __str__(self) -> str:
        how = "DROP default" if self.default is None else f"set default {self.default}"
        return f"alter column {self.path} {how}"


@dataclass(frozen=True, slots=True)
class SetComment:
    """A column's description, or the table's where `path` is None; None removes it."""

    path: str | None
    comment: str | None

    def __str__(self) -> str:
        return "comment on table" if self.path is None else f"alter column {self.path} comment"


@dataclass(frozen=True, slots=True)
class SetProperty:
    """A table property."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"set {self.key} = {self.value}"


@dataclass(frozen=True, slots=True)
class UnsetProperty:
    """A table property that goes."""

    key: str

    def __str__(self) -> str:
        return f"unset {self.key}"


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """A check that every row must satisfy."""

    name: str
    expression: str

    def __str__(self) -> str:
        return f"add constraint {self.name} check ({self.expression})"


@dataclass(frozen=True, slots=True)
class AddRule:
    """A unique key, a foreign key, or a check whose violation does not end a transaction."""

    name: str
    rule: Constraint

    def __str__(self) -> str:
        match self.rule:
            case Unique(columns):
                what = f"unique ({', '.join(columns)})"
            case ForeignKey(columns, references, key):
                target = f"{references} ({', '.join(key)})"
                what = f"foreign key ({', '.join(columns)}) references {target}"
            case _:
                what = f"check ({self.rule.expression})"
        return f"add constraint {self.name} {what}"


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """A constraint that goes."""

    name: str

    def __str__(self) -> str:
        return f"drop constraint {self.name}"


@dataclass(frozen=True, slots=True)
class AddPartitionField:
    """A term such as `day(ts)` by which files that are written from now on are partitioned."""

    term: str

    def __str__(self) -> str:
        return f"add partition field {self.term}"


@dataclass(frozen=True, slots=True)
class DropPartitionField:
    """A term by which files are no longer partitioned."""

    term: str

    def __str__(self) -> str:
        return f"drop partition field {self.term}"


@dataclass(frozen=True, slots=True)
class EnableFeature:
    """A feature of the table's format."""

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
