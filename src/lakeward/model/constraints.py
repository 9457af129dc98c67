"""Constraints beside plain checks: unique keys, foreign keys, and what a violation leads to.

They are kept as table properties, so every definition in the log has its own, other readers ignore
them, and they come back when a table is adopted. A plain check that refuses rows is kept as the
formats keep checks (`Definition.constraints`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import orjson

from lakeward.errors import InvalidInput
from lakeward.model.constraint_kinds import CHECK, FOREIGN_KEY, UNIQUE
from lakeward.model.constraint_kinds import PREFIXES as PREFIXES
from lakeward.model.constraint_kinds import Check as Check
from lakeward.model.constraint_kinds import Constraint as Constraint
from lakeward.model.constraint_kinds import ForeignKey as ForeignKey
from lakeward.model.constraint_kinds import OnViolation as OnViolation
from lakeward.model.constraint_kinds import Unique as Unique
from lakeward.model.definition import Definition, known
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Field, Primitive

_Kind = TypeVar("_Kind", Check, Unique)


def unique_keys(definition: Definition) -> Mapping[str, Unique]:
    """The unique keys of a table, by name."""
    return known(definition, _unique_keys)


def foreign_keys(definition: Definition) -> Mapping[str, ForeignKey]:
    """The foreign keys of a table, by name."""
    return known(definition, _foreign_keys)


def plain_checks(definition: Definition) -> Mapping[str, str]:
    """Return the checks of the table and its policies that fail a transaction, by name."""
    return known(definition, _plain_checks) if definition.rules else definition.constraints


def tolerant_checks(definition: Definition) -> Mapping[str, Check]:
    """The checks of a table whose violation does not end a transaction, by name."""
    return known(definition, _tolerant_checks)


def declared(definition: Definition) -> dict[str, str | Constraint]:
    """All constraints by name: checks that refuse rows as text, the others as objects."""
    return {
        **plain_checks(definition),
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


def rule_constraints(definition: Definition) -> Mapping[str, str | Constraint]:
    """Return the constraints that policies of patterns add to the table, by name."""
    return known(definition, _rule_constraints)


def rule_sources(definition: Definition) -> Mapping[str, str]:
    """Return the pattern of the policy for each of `rule_constraints`."""
    return known(definition, _rule_sources)


def _rule_sources(definition: Definition) -> dict[str, str]:
    given = rule_constraints(definition)
    return {
        name: rule.pattern.text
        for rule in definition.rules
        for name in rule.policy.constraints or ()
        if name in given
    }


def rule_keys(definition: Definition) -> Mapping[str, Constraint]:
    """Return those of `rule_constraints` that are checked once a change is complete."""
    given = rule_constraints(definition)
    return {name: one for name, one in given.items() if not isinstance(one, str)}


def _rule_constraints(definition: Definition) -> dict[str, str | Constraint]:
    own = {*definition.constraints, *_own_names(definition)}
    return {
        name: one
        for rule in definition.rules
        for name, one in (rule.policy.constraints or {}).items()
        if rule.pattern.is_exact or name not in own
    }


def _plain_checks(definition: Definition) -> dict[str, str]:
    given = rule_constraints(definition)
    own = {n: text for n, text in definition.constraints.items() if n not in given}
    return own | {n: one for n, one in given.items() if isinstance(one, str)}


def _unique_keys(definition: Definition) -> dict[str, Unique]:
    found = {
        name: Unique(*body["columns"], on_violation=body["on_violation"])
        for name, body in _bodies(definition, UNIQUE)
    }
    return found | _given(definition, Unique)


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
    found = {
        name: Check(body["expression"], body["on_violation"])
        for name, body in _bodies(definition, CHECK)
    }
    return found | _given(definition, Check)


def _given(definition: Definition, kind: type[_Kind]) -> dict[str, _Kind]:
    return {n: one for n, one in rule_constraints(definition).items() if isinstance(one, kind)}


def _has_late_checks(definition: Definition) -> bool:
    if any(not isinstance(one, str) for one in rule_constraints(definition).values()):
        return True
    return any(key.startswith(PREFIXES) for key in definition.properties)


def _own_names(definition: Definition) -> Iterator[str]:
    for key in definition.properties:
        for prefix in PREFIXES:
            if key.startswith(prefix):
                yield key.removeprefix(prefix)


def _bodies(definition: Definition, prefix: str) -> list[tuple[str, Any]]:
    given = rule_constraints(definition)
    found = sorted(definition.properties.items())
    own = ((k.removeprefix(prefix), v) for k, v in found if k.startswith(prefix))
    return [(name, orjson.loads(text)) for name, text in own if name not in given]
