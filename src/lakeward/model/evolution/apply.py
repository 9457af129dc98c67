"""Applies a change to a definition, or raises the reason why that is impossible.

Pure functions, the same for all formats; a format adds what only it needs. Fields keep their ids,
and new fields get ids that the table has never used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from lakeward.errors import InvalidInput, InvalidName, UnsupportedFeature
from lakeward.model.constraints import (
    PREFIXES,
    Check,
    NotNull,
    declared,
    key_fields,
    property_of,
    required_fields,
    rule_constraints,
)
from lakeward.model.definition import Definition
from lakeward.model.evolution import columns
from lakeward.model.evolution.alterations import (
    AddColumn,
    AddConstraint,
    AddPartitionField,
    AddRule,
    Alteration,
    ChangeType,
    DropColumn,
    DropConstraint,
    DropPartitionField,
    EnableFeature,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetDefault,
    SetNullable,
    SetProperty,
    UnsetProperty,
)
from lakeward.model.evolution.paths import find
from lakeward.model.expressions.where import parse


def applied(definition: Definition, change: Alteration) -> Definition:
    """Return the definition after a change.

    Raises:
        InvalidInput: The change is impossible; says for which column or setting, why, and what
            would work.
        UnsupportedFeature: The change is one that only some formats have.
    """
    match change:
        case AddColumn():
            return columns.added(definition, change)
        case RenameColumn():
            return columns.renamed(definition, change)
        case DropColumn():
            return columns.dropped(definition, change)
        case MoveColumn():
            return columns.moved(definition, change)
        case ChangeType():
            return columns.retyped(definition, change)
        case SetNullable():
            return columns.with_nullable(definition, change)
        case SetDefault():
            return columns.with_default(definition, change)
        case SetComment(None, comment):
            return replace(definition, comment=comment)
        case SetComment():
            return columns.with_comment(definition, change)
        case SetProperty(key, value):
            return replace(definition, properties={**definition.properties, key: value})
        case UnsetProperty(key):
            return replace(definition, properties=_without(definition.properties, key, "property"))
        case AddConstraint():
            return _with_check(definition, change)
        case AddRule():
            return _with_rule(definition, change)
        case DropConstraint(name):
            return _without_constraint(definition, name)
        case AddPartitionField() | DropPartitionField() | EnableFeature():
            what = f"Tables of this format have no `{change}`."
            raise UnsupportedFeature(what)
        case _ as never:
            assert_never(never)


def is_needed(definition: Definition, change: Alteration) -> bool:
    """Return whether a change with IF EXISTS or IF NOT EXISTS would change the definition."""
    match change:
        case AddColumn(path=path):
            return not _has(definition, path)
        case DropColumn(path=path):
            return _has(definition, path)
        case UnsetProperty(key):
            return key in definition.properties
        case DropConstraint(name):
            return name.lower() in {k.lower() for k in declared(definition)}
        case _:
            return True


def _has(definition: Definition, path: str) -> bool:
    try:
        find(definition.schema, path)
    except InvalidInput:
        return False
    return True


def _with_check(definition: Definition, change: AddConstraint) -> Definition:
    _check_new(definition, change.name)
    parse(change.expression, definition.schema)
    added = {**definition.constraints, change.name.lower(): change.expression}
    return replace(definition, constraints=added)


def _with_rule(definition: Definition, change: AddRule) -> Definition:
    name, rule = change.name.lower(), change.rule
    _check_new(definition, name)
    if isinstance(rule, Check):
        parse(rule.expression, definition.schema)
    elif isinstance(rule, NotNull):
        required_fields(definition.schema, rule.columns, name)
    else:
        key_fields(definition.schema, rule.columns, name)
    key, text = property_of(name, rule)
    return replace(definition, properties={**definition.properties, key: text})


def _check_new(definition: Definition, name: str) -> None:
    if not name.replace("_", "a").isalnum() or not name.isascii():
        what = f"{name!r} is not a constraint name."
        raise InvalidName(what, hint="Use letters, digits and '_'.", name=name)
    if name.lower() in {k.lower() for k in declared(definition)}:
        what = f"The table has a constraint {name!r} already."
        raise InvalidInput(what, hint="Drop it first, or choose another name.", constraint=name)


def _without_constraint(definition: Definition, name: str) -> Definition:
    known = declared(definition)
    if name not in known and name.lower() not in known:
        what = f"The table has no constraint {name!r}."
        raise InvalidInput(what, hint=_known(list(known)))
    own = name if name in known else name.lower()
    if own in rule_constraints(definition):
        what = f"Constraint {own} belongs to a policy, not to the table."
        hint = "Change the policy with lake.set_policy; lake.policy(name) says which one it is."
        raise InvalidInput(what, hint=hint, constraint=own)
    checks = {k: v for k, v in definition.constraints.items() if k != own}
    gone = {f"{prefix}{own}" for prefix in PREFIXES}
    properties = {k: v for k, v in definition.properties.items() if k not in gone}
    return replace(definition, constraints=checks, properties=properties)


def _without(source: Mapping[str, str], key: str, kind: str) -> dict[str, str]:
    if key not in source:
        what = f"The table has no {kind} {key!r}."
        raise InvalidInput(what, hint=_known(list(source)))
    return {k: v for k, v in source.items() if k != key}


def _known(names: Sequence[str]) -> str:
    return f"It has {', '.join(sorted(names))}." if names else "It has none."
