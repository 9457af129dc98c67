"""Checks, before rows are written, that the table can be written and that rows satisfy its checks.

A row violates a check unless the expression is true for it; unknown is not true. Checks are
published as `delta.constraints`, which Delta evaluates in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.expression import to_arrow
from lakeward.engines.arrow.values import python_rows
from lakeward.errors import (
    ConstraintViolation,
    InvalidExpression,
    InvalidInput,
    InvalidName,
    UnsupportedFeature,
)
from lakeward.formats.policy import settings
from lakeward.formats.properties import is_append_only
from lakeward.formats.registry import format_of
from lakeward.model.commit import Head
from lakeward.model.constraints import (
    Check,
    Constraint,
    ForeignKey,
    NotNull,
    OnViolation,
    Unique,
    key_fields,
    plain_checks,
    property_of,
    required_fields,
    rule_constraints,
    rule_sources,
)
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.where import parse
from lakeward.model.schema import Schema
from lakeward.write.plan.change import Change

SAMPLE: Final = 5
OVERWRITE: Final = "overwrite where"
"""The reserved name of the check that new rows satisfy the condition of an overwrite."""


@dataclass
class Checks:
    """The checks of a table; counts violations over any number of batches."""

    table: str
    _predicates: dict[str, tuple[str, pc.Expression]]
    _policies: Mapping[str, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _samples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def of(cls, definition: Definition, table: str) -> Checks:
        """Return the checks of a definition."""
        predicates = {
            name: (text, violates(parse(text, definition.schema)))
            for name, text in plain_checks(definition).items()
        }
        return cls(table, predicates, rule_sources(definition) if definition.rules else {})

    def anew(self) -> Checks:
        """Return a copy of the checks, with all counts at zero."""
        return Checks(self.table, self._predicates, self._policies)

    def add(self, name: str, text: str, expression: Expression) -> None:
        """Add a check."""
        self._predicates[name] = (text, violates(expression))

    def look_at(self, rows: pa.Table) -> None:
        """Count the rows that violate a check."""
        for name, (text, predicate) in self._predicates.items():
            bad = matching(rows, predicate, f"Check {name} ({text}) of {self.table}")
            if not bad.num_rows:
                continue
            self._counts[name] = self._counts.get(name, 0) + bad.num_rows
            sample = self._samples.setdefault(name, [])
            sample.extend(python_rows(bad.slice(0, SAMPLE - len(sample))))

    @property
    def violated(self) -> bool:
        """Whether a row seen so far violates a check."""
        return bool(self._counts)

    def raise_violations(self) -> None:
        """Raise `ConstraintViolation`, with a count and a sample, if a row violated a check."""
        if not self._counts:
            return
        name = max(self._counts, key=lambda n: self._counts[n])
        text, _ = self._predicates[name]
        count = self._counts[name]
        others = sorted(set(self._counts) - {name})
        more = f" Also violated: {', '.join(others)}." if others else ""
        rows = "1 row violates" if count == 1 else f"{count} rows violate"
        policy = self._policies.get(name)
        whose = self.table if policy is None else f"{self.table}, by policy {policy}"
        what = f"Check {name} ({text}) of {whose}: {rows} it.{more}"
        if name == OVERWRITE:
            rows = "1 new row does" if count == 1 else f"{count} new rows do"
            what = f"{rows} not satisfy where= ({text}) of the overwrite of {self.table}.{more}"
        raise ConstraintViolation(
            what,
            hint=f"Nothing was committed. First of them: {_shown(self._samples[name][0])}",
            table=self.table,
            constraint=name,
            expression=text,
            count=count,
            counts=dict(self._counts),
            sample=self._samples[name],
            **({} if policy is None else {"pattern": policy}),
        )


def _shown(row: Mapping[str, Any]) -> str:
    """Return a row as text for people, without Python's types around numbers and dates."""
    values = {n: repr(v) if isinstance(v, str | bytes) else str(v) for n, v in row.items()}
    return ", ".join(f"{name} {value}" for name, value in values.items())


def check_writable(change: Change) -> None:
    """Raise `UnsupportedFeature` if only another engine can write the table."""
    format_of(change.head).check_writable(change.definition, str(change.head.name))


def check_deletable(change: Change) -> None:
    """Raise `UnsupportedFeature` if the table is append-only."""
    if is_append_only(settings(change.head, change.definition)):
        what = f"Table {change.head.name} is append-only."
        hint = "Rows can only be added. Make a table without the policy for rows that change."
        raise UnsupportedFeature(what, hint=hint, table=str(change.head.name))


def check_constraints(
    constraints: Mapping[str, str | Constraint], schema: Schema
) -> tuple[dict[str, str], dict[str, str]]:
    """Check constraints; return plain checks by name, and table properties for the others.

    Raises an error for names that Delta cannot store, and for constraints that cannot be parsed or
    do not fit the columns.
    """
    out: dict[str, str] = {}
    held: dict[str, str] = {}
    taken: set[str] = set()
    for name, given in constraints.items():
        if not name.replace("_", "a").isalnum() or not name.isascii():
            what = f"{name!r} is not a constraint name."
            raise InvalidName(what, hint="Use letters, digits and '_'.", name=name)
        if name.lower() in taken:
            what = f"Two constraints are called {name!r}."
            raise InvalidName(what, hint="Rename one of them.", name=name)
        taken.add(name.lower())
        constraint = Check(given) if isinstance(given, str) else given
        match constraint:
            case Check(text):
                parse(text, schema)
            case Unique() | ForeignKey():
                key_fields(schema, constraint.columns, name)
            case NotNull():
                required_fields(schema, constraint.columns, name)
            case _:
                what = f"Constraint {name} is a {type(given).__name__}."
                hint = "Use text, lw.Check, lw.Unique, lw.ForeignKey or lw.NotNull."
                raise InvalidInput(what, hint=hint, constraint=name)
        if isinstance(constraint, Check) and constraint.on_violation == OnViolation.FAIL:
            out[name.lower()] = constraint.expression
        else:
            held.update([property_of(name.lower(), constraint)])
    return out, held


def check_columns(head: Head, definition: Definition) -> None:
    """Raise `InvalidInput` if a table lacks the columns of a constraint of its policy."""
    for name, one in rule_constraints(definition).items():
        try:
            check_constraints({name: one}, definition.schema)
        except (InvalidExpression, InvalidInput) as error:
            sources = rule_sources(definition)
            what = f"Constraint {name} of policy {sources[name]} does not fit {head.name}: {error}"
            hint = "Give the policy to a pattern that leaves the table out, or change its columns."
            facts = {"table": str(head.name), "constraint": name, "pattern": sources[name]}
            raise InvalidInput(what, hint=hint, **facts) from error


def matching(rows: pa.Table, predicate: pc.Expression, what: str) -> pa.Table:
    """Return the rows for which a predicate is true; errors call the predicate `what`."""
    try:
        return rows.filter(predicate)
    except pa.ArrowInvalid as error:
        text = f"{what} cannot be computed for a row: {error}."
        raise InvalidExpression(text, hint="Nothing was committed.") from error


def violates(expression: Expression) -> pc.Expression:
    """Return an Arrow expression that is true for rows for which the expression is not true."""
    return ~pc.coalesce(to_arrow(expression), pc.scalar(False))
