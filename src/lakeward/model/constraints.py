"""Constraints of tables: keys, and checks and required columns with another reaction than failing.

They are stored as table properties, so they are part of every definition in the log, other readers
ignore them, and an adopted table still has them. A plain check, whose violation fails the
transaction, is stored as the formats store checks (`Definition.constraints`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import orjson

from lakeward.errors import InvalidInput
from lakeward.model.constraint_kinds import CHECK, FOREIGN_KEY, NOT_NULL, UNIQUE
from lakeward.model.constraint_kinds import PREFIXES as PREFIXES
from lakeward.model.constraint_kinds import Check as Check
from lakeward.model.constraint_kinds import Constraint as Constraint
from lakeward.model.constraint_kinds import ForeignKey as ForeignKey
from lakeward.model.constraint_kinds import NotNull as NotNull
from lakeward.model.constraint_kinds import OnViolation as OnViolation
from lakeward.model.constraint_kinds import Unique as Unique
from lakeward.model.definition import Definition, known
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Field, Primitive

_Kind = TypeVar("_Kind", Check, Unique, NotNull)


def unique_keys(definition: Definition) -> Mapping[str, Unique]:
    """Return the unique keys of a table and of its policies, by name."""
    return known(definition, _unique_keys)


def foreign_keys(definition: Definition) -> Mapping[str, ForeignKey]:
    """Return the foreign keys of a table, by name."""
    return known(definition, _foreign_keys)


def plain_checks(definition: Definition) -> Mapping[str, str]:
    """Return the checks of the table and its policies that fail a transaction, by name."""
    return known(definition, _plain_checks) if definition.rules else definition.constraints


def tolerant_checks(definition: Definition) -> Mapping[str, Check]:
    """Return the checks whose violation does not fail a transaction, by name."""
    return known(definition, _tolerant_checks)


def not_null(definition: Definition) -> Mapping[str, NotNull]:
    """Return what happens to rows without a value in required columns, by constraint name."""
    return known(definition, _not_null)


def lenient_ids(definition: Definition) -> frozenset[int]:
    """Return the ids of required columns whose missing values do not fail a transaction.

    Staged files may lack values in them; the rows are moved before the commit.
    """
    return known(definition, _lenient_ids)


def loosened(definition: Definition) -> Definition:
    """Return the definition with the columns of `lenient_ids` nullable, as staged files are."""
    return known(definition, _loosened)


def declared(definition: Definition) -> dict[str, str | Constraint]:
    """Return all constraints by name: plain checks as text, the others as objects."""
    return {
        **plain_checks(definition),
        **tolerant_checks(definition),
        **unique_keys(definition),
        **foreign_keys(definition),
        **not_null(definition),
    }


def has_late_checks(definition: Definition) -> bool:
    """Return whether a table has constraints that are checked once a change is complete."""
    return known(definition, _has_late_checks)


def is_tolerant(definition: Definition) -> bool:
    """Return whether the violation of some constraint of a table does not fail a transaction."""
    return known(definition, _is_tolerant)


def property_of(name: str, constraint: Constraint) -> tuple[str, str]:
    """Return the key and value of the table property that stores a constraint."""
    body: dict[str, Any] = {"on_violation": str(constraint.on_violation)}
    match constraint:
        case Check(expression):
            body["expression"] = expression
        case Unique() | NotNull():
            body["columns"] = constraint.columns
        case ForeignKey():
            body["columns"] = constraint.columns
            body["references"] = constraint.references
            body["key"] = constraint.key
    return constraint.prefix + name, orjson.dumps(body).decode()


def key_fields(schema: Schema, columns: Sequence[str], name: str) -> tuple[Field, ...]:
    """Return the fields of a key's columns; raise `InvalidInput` if a column cannot be in a key."""
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


def required_fields(schema: Schema, columns: Sequence[str], name: str) -> tuple[Field, ...]:
    """Return the fields of required columns; raise `InvalidInput` if a column is not required."""
    out = []
    for column in columns:
        field = schema.by_name.get(column)
        if field is None:
            what = f"Constraint {name} names a column {column!r}, which the table does not have."
            hint = f"Name whole columns, not parts of them. It has {', '.join(schema.names)}."
            raise InvalidInput(what, hint=hint, column=column, constraint=name)
        if field.nullable:
            what = f"Constraint {name} names column {column}, which may lack values."
            hint = (
                f"Make it required first: `{column} {field.type} not null`, or"
                f" set_not_null({column!r}). For a nullable column write a check:"
                f" lw.Check('{column} IS NOT NULL', …)."
            )
            raise InvalidInput(what, hint=hint, column=column, constraint=name)
        out.append(field)
    return tuple(out)


def named_columns(definition: Definition) -> dict[str, list[str]]:
    """Return the names of the unique and foreign keys that each column is in, by column name."""
    out: dict[str, list[str]] = {}
    keys: dict[str, Unique | ForeignKey] = {**unique_keys(definition), **foreign_keys(definition)}
    for name, key in keys.items():
        for column in key.columns:
            out.setdefault(column, []).append(name)
    return out


def renamed(properties: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Return properties whose constraints contain `new` instead of the column `old`."""
    out = dict(properties)
    for key, text in properties.items():
        if key.startswith((UNIQUE, FOREIGN_KEY, NOT_NULL)):
            body = orjson.loads(text)
            body["columns"] = [new if c == old else c for c in body["columns"]]
            out[key] = orjson.dumps(body).decode()
    return out


def rule_constraints(definition: Definition) -> Mapping[str, str | Constraint]:
    """Return the constraints that policies of patterns add to the table, by name."""
    return known(definition, _rule_constraints)


def rule_sources(definition: Definition) -> Mapping[str, str]:
    """Return the pattern of the policy that adds each of `rule_constraints`, by name."""
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


def _not_null(definition: Definition) -> dict[str, NotNull]:
    found = {
        name: NotNull(*body["columns"], on_violation=body["on_violation"])
        for name, body in _bodies(definition, NOT_NULL)
    }
    return found | _given(definition, NotNull)


def _lenient_ids(definition: Definition) -> frozenset[int]:
    reactions: dict[str, set[str]] = {}
    for one in not_null(definition).values():
        for column in one.columns:
            reactions.setdefault(column, set()).add(one.on_violation)
    fields = definition.schema.by_name
    return frozenset(
        fields[name].id
        for name, found in reactions.items()
        if name in fields and not fields[name].nullable and OnViolation.FAIL not in found
    )


def _loosened(definition: Definition) -> Definition:
    ids, schema = lenient_ids(definition), definition.schema
    if not ids:
        return definition
    # Data must still have the columns: `optional` would let it leave them out.
    loose = (replace(f, nullable=True, optional=False) if f.id in ids else f for f in schema)
    return replace(definition, schema=replace(schema, fields=tuple(loose)))


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


def _is_tolerant(definition: Definition) -> bool:
    each = (one for one in declared(definition).values() if not isinstance(one, str))
    return any(one.on_violation != OnViolation.FAIL for one in each)


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
