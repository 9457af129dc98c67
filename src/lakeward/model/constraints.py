"""Constraints beside plain checks: unique keys, foreign keys, and what a violation leads to.

They are kept as table properties, so every definition in the log has its own, other readers ignore
them, and they come back when a table is adopted. A plain check that refuses rows is kept as the
formats keep checks (`Definition.constraints`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias

import orjson

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.definition import Definition, known
from lakeward.model.names import TableName
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Field, Primitive

UNIQUE: Final = "lakeward.unique."
FOREIGN_KEY: Final = "lakeward.foreign-key."
CHECK: Final = "lakeward.check."
PREFIXES: Final = (UNIQUE, FOREIGN_KEY, CHECK)


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
    """Columns whose values must be a key of another table. Rows with a null in one pass.

    Attributes:
        columns: One or more.
        references: The other table.
        key: Its columns, which are a unique key there; the same names unless given.
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


Constraint: TypeAlias = Check | Unique | ForeignKey


def unique_keys(definition: Definition) -> Mapping[str, Unique]:
    """The unique keys of a table, by name."""
    return known(definition, _unique_keys)


def foreign_keys(definition: Definition) -> Mapping[str, ForeignKey]:
    """The foreign keys of a table, by name."""
    return known(definition, _foreign_keys)


def tolerant_checks(definition: Definition) -> Mapping[str, Check]:
    """The checks of a table whose violation does not end a transaction, by name."""
    return known(definition, _tolerant_checks)


def declared(definition: Definition) -> dict[str, str | Constraint]:
    """All constraints by name: checks that refuse rows as text, the others as objects."""
    return {
        **definition.constraints,
        **tolerant_checks(definition),
        **unique_keys(definition),
        **foreign_keys(definition),
    }


def has_late_checks(definition: Definition) -> bool:
    """Whether a change is looked at as a whole before it is ratified."""
    return known(definition, _has_late_checks)


def property_of(name: str, constraint: Constraint) -> tuple[str, str]:
    """The table property that holds a constraint."""
    body: dict[str, Any] = {"on_violation": str(constraint.on_violation)}
    match constraint:
        case Check(expression):
            body["expression"] = expression
        case Unique():
            body["columns"] = constraint.columns
        case ForeignKey():
            body["columns"] = constraint.columns
            body["references"] = constraint.references
            body["key"] = constraint.key
    return constraint.prefix + name, orjson.dumps(body).decode()


def key_fields(schema: Schema, columns: Sequence[str], name: str) -> tuple[Field, ...]:
    """The fields of a key; raise `InvalidInput` for columns that cannot be in one."""
    out = []
    for column in columns:
        field = schema.by_name.get(column)
        if field is None:
            what = f"Constraint {name} names a column {column!r}, which the table does not have."
            hint = f"It has {', '.join(schema.names)}."
            raise InvalidInput(what, hint=hint, column=column, constraint=name)
        if not isinstance(field.type, Primitive | Decimal):
            what = f"Column {column} is a {field.type} and cannot be in a key (constraint {name})."
            hint = "Use columns of simple types."
            raise InvalidInput(what, hint=hint, column=column, constraint=name)
        out.append(field)
    return tuple(out)


def named_columns(definition: Definition) -> dict[str, list[str]]:
    """For each column of a key of the table, the names of the constraints that it is in."""
    out: dict[str, list[str]] = {}
    keys: dict[str, Unique | ForeignKey] = {**unique_keys(definition), **foreign_keys(definition)}
    for name, key in keys.items():
        for column in key.columns:
            out.setdefault(column, []).append(name)
    return out


def renamed(properties: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Properties in which the keys of the table name a column by its new name."""
    out = dict(properties)
    for key, text in properties.items():
        if key.startswith((UNIQUE, FOREIGN_KEY)):
            body = orjson.loads(text)
            body["columns"] = [new if c == old else c for c in body["columns"]]
            out[key] = orjson.dumps(body).decode()
    return out


def _unique_keys(definition: Definition) -> dict[str, Unique]:
    return {
        name: Unique(*body["columns"], on_violation=body["on_violation"])
        for name, body in _bodies(definition, UNIQUE)
    }


def _foreign_keys(definition: Definition) -> dict[str, ForeignKey]:
    return {
        name: ForeignKey(
            *body["columns"],
            references=body["references"],
            key=body["key"],
            on_violation=body["on_violation"],
        )
        for name, body in _bodies(definition, FOREIGN_KEY)
    }


def _tolerant_checks(definition: Definition) -> dict[str, Check]:
    return {
        name: Check(body["expression"], body["on_violation"])
        for name, body in _bodies(definition, CHECK)
    }


def _has_late_checks(definition: Definition) -> bool:
    return any(key.startswith(PREFIXES) for key in definition.properties)


def _bodies(definition: Definition, prefix: str) -> list[tuple[str, Any]]:
    found = sorted(definition.properties.items())
    return [(k.removeprefix(prefix), orjson.loads(v)) for k, v in found if k.startswith(prefix)]


def _names(columns: Sequence[str], parameter: str) -> tuple[str, ...]:
    names = tuple(arguments.texts(columns, parameter))
    if not names or len(set(names)) < len(names):
        what = "A key needs at least one column, and each of them once."
        raise InvalidInput(what, hint='Write lw.Unique("id") or lw.Unique("a", "b").')
    return names


def _set(target: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(target, name, value)
