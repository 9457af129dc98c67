"""Validation of staged rows against a table's checks, before anything is ratified.

A row violates a check unless the expression is true for it: unknown is not true. That is how Delta
reads its own `delta.constraints`, which these are published as.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.expression import to_arrow
from lakeward.engines.arrow.values import python_rows
from lakeward.errors import ConstraintViolation, InvalidExpression, InvalidName
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.where import parse
from lakeward.model.schema import Schema

SAMPLE: Final = 5


@dataclass
class Checks:
    """A table's checks, counting violations over any number of batches."""

    table: str
    _predicates: dict[str, tuple[str, pc.Expression]]
    _counts: dict[str, int] = field(default_factory=dict)
    _samples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def of(cls, definition: Definition, table: str) -> Checks:
        """The checks of a definition."""
        predicates = {
            name: (text, violates(parse(text, definition.schema)))
            for name, text in definition.constraints.items()
        }
        return cls(table, predicates)

    def anew(self) -> Checks:
        """The same checks, with nothing counted yet."""
        return Checks(self.table, self._predicates)

    def also(self, name: str, text: str, expression: Expression) -> None:
        """Check one more thing."""
        self._predicates[name] = (text, violates(expression))

    def look_at(self, rows: pa.Table) -> None:
        """Count the rows that violate a check.

        Raises:
            InvalidExpression: A check cannot be computed for a row.
        """
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

    def settle(self) -> None:
        """Raise when a row violated a check.

        Raises:
            ConstraintViolation: Names the check, counts the rows and shows some of them.
        """
        if not self._counts:
            return
        name = max(self._counts, key=lambda n: self._counts[n])
        text, _ = self._predicates[name]
        count = self._counts[name]
        others = sorted(set(self._counts) - {name})
        more = f" Also violated: {', '.join(others)}." if others else ""
        rows = "1 row violates" if count == 1 else f"{count} rows violate"
        what = f"Check {name} ({text}) of {self.table}: {rows} it.{more}"
        raise ConstraintViolation(
            what,
            hint=f"Nothing was committed. First of them: {self._samples[name][0]}",
            table=self.table,
            constraint=name,
            expression=text,
            count=count,
            counts=dict(self._counts),
            sample=self._samples[name],
        )


def check_constraints(constraints: Mapping[str, str], schema: Schema) -> dict[str, str]:
    """Named checks, each parsed against the schema.

    Raises:
        InvalidName: A name that Delta cannot keep.
        InvalidExpression: A check that does not parse or fit.
    """
    out: dict[str, str] = {}
    for name, text in constraints.items():
        if not name.replace("_", "a").isalnum() or not name.isascii():
            what = f"{name!r} is not a constraint name."
            raise InvalidName(what, hint="Use letters, digits and '_'.", name=name)
        if name.lower() in out:
            what = f"Two constraints are called {name!r}."
            raise InvalidName(what, hint="Rename one of them.", name=name)
        parse(text, schema)
        out[name.lower()] = text
    return out


def matching(rows: pa.Table, predicate: pc.Expression, what: str) -> pa.Table:
    """The rows for which a predicate is true.

    Args:
        rows: To choose from.
        predicate: As `to_arrow` made it.
        what: What the predicate is, for the error.

    Raises:
        InvalidExpression: It cannot be computed for a row: a number overflows, a cast does not fit.
    """
    try:
        return rows.filter(predicate)
    except pa.ArrowInvalid as error:
        text = f"{what} cannot be computed for a row: {error}."
        raise InvalidExpression(text, hint="Nothing was committed.") from error


def violates(expression: Expression) -> pc.Expression:
    """True where the expression is not true."""
    return ~pc.coalesce(to_arrow(expression), pc.scalar(False))
