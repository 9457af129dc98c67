"""Resolves names in expressions to columns of a schema, or of a merge's table and data.

In a merge, `target.x` is a column of the table and `source.x` a column of the data. A plain `x` is
the column of the side that has it, and refused if both sides have it. Columns of the data get names
that no column of a table can have, so that both sides fit into one row.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Final

from lakeward.errors import InvalidExpression
from lakeward.model.expressions.nodes import Column, Expression, walk
from lakeward.model.schema import Schema
from lakeward.model.types import Field, Struct

TARGET: Final = "target"
SOURCE: Final = "source"
_MARK: Final = "\0source."


def resolve(names: list[str], schema: Schema) -> Column:
    """Find the column or struct member of a dotted name.

    Upper and lower case are not distinguished, but an exact match is preferred.
    """
    field = _find(names[0], schema.fields)
    if field is None:
        raise _unknown(names[0], schema.fields, ".".join(names))
    leaf, path = field, []
    for name in names[1:]:
        if not isinstance(leaf.type, Struct):
            what = f"Column {leaf.name!r} is of type {leaf.type} and has no member {name!r}."
            raise InvalidExpression(what, column=".".join(names))
        found = _find(name, leaf.type.fields)
        if found is None:
            raise _unknown(name, leaf.type.fields, ".".join(names), of=leaf)
        leaf = found
        path.append(found.name)
    return Column(field, tuple(path))


@dataclass(frozen=True, slots=True)
class Sides:
    """The columns of table and data to which an expression may refer; None if a side has no row."""

    target: Schema | None
    source: Schema | None

    def resolve(self, names: list[str]) -> Column:
        """Return the column of a dotted name, which is given as its parts."""
        side, rest = names[0].lower(), names[1:]
        if rest and side == TARGET:
            return resolve(rest, self._existing(self.target, "the table", names))
        if rest and side == SOURCE:
            return _of_source(rest, self._existing(self.source, "the data", names))
        found = [
            name
            for name, schema in ((TARGET, self.target), (SOURCE, self.source))
            if schema is not None and names[0].lower() in _lowered(schema)
        ]
        if len(found) > 1:
            what = f"Column {names[0]!r} is in the table and in the data."
            hint = f"Write {TARGET}.{names[0]} or {SOURCE}.{names[0]}."
            raise InvalidExpression(what, hint=hint, column=names[0])
        if self.target is not None and found != [SOURCE]:
            return resolve(names, self.target)
        return _of_source(names, self._existing(self.source, "the data", names))

    def _existing(self, schema: Schema | None, what: str, names: list[str]) -> Schema:
        if schema is None:
            problem = f"There is no row of {what} here, so {'.'.join(names)} has no value."
            raise InvalidExpression(problem, column=".".join(names))
        return schema


def source_name(name: str) -> str:
    """Return the name of a column of the data in a row that has the table's columns, too."""
    return _MARK + name


def is_source(field: Field) -> bool:
    """Whether a field is a column of the data in a merge."""
    return field.name.startswith(_MARK)


def sources(expression: Expression) -> set[str]:
    """Return the columns of the data that an expression reads, by their names in the data."""
    return {name.removeprefix(_MARK) for name in _read(expression, of_source=True)}


def targets(expression: Expression) -> set[str]:
    """Return the columns of the table that an expression reads."""
    return _read(expression, of_source=False)


def _find(name: str, fields: tuple[Field, ...]) -> Field | None:
    exact = [f for f in fields if f.name == name]
    alike = exact or [f for f in fields if f.name.lower() == name.lower()]
    if len(alike) > 1:
        what = f"Column {name!r} may be {' or '.join(repr(f.name) for f in alike)}."
        raise InvalidExpression(what, hint="Write the name with its exact case.", column=name)
    return alike[0] if alike else None


def _unknown(
    name: str, fields: tuple[Field, ...], column: str, *, of: Field | None = None
) -> InvalidExpression:
    by_lower = {f.name.lower(): f.name for f in fields}
    close = [by_lower[n] for n in difflib.get_close_matches(name.lower(), by_lower, n=3)]
    if close:
        hint = f"Did you mean {' or '.join(close)}?"
    else:
        shown = [f.name for f in fields[:10]]
        rest = ", …" if len(fields) > len(shown) else ""
        hint = f"There {'is' if len(fields) == 1 else 'are'} {', '.join(shown)}{rest}."
        if of is None:
            hint += f" Text is written in single quotes: '{name}'."
    what = f"Column {of.name!r} has no member {name!r}." if of else f"There is no column {name!r}."
    return InvalidExpression(what, hint=hint, column=column)


def _read(expression: Expression, *, of_source: bool) -> set[str]:
    fields = [node.field for node in walk(expression) if isinstance(node, Column)]
    return {f.name for f in fields if is_source(f) is of_source}


def _of_source(names: list[str], schema: Schema) -> Column:
    found = resolve(names, schema)
    # Ids identify columns of the table; the data has none.
    return Column(replace(found.field, id=0, name=source_name(found.field.name)), found.path)


def _lowered(schema: Schema) -> set[str]:
    return {name.lower() for name in schema.names}
