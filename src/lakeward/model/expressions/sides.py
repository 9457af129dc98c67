"""Names in the expressions of a merge: columns of the table, and of the data.

`target.x` is a column of the table, `source.x` one of the data. A bare `x` is whichever of them has
such a column, and refused where both do. Columns of the data have names of their own, which no
column of a table can have, so that both can stand side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lakeward.errors import InvalidExpression
from lakeward.model.expressions.nodes import Column, Expression, walk
from lakeward.model.expressions.resolve import resolve
from lakeward.model.schema import Schema
from lakeward.model.types import Field

TARGET: Final = "target"
SOURCE: Final = "source"
_MARK: Final = "\0source."


@dataclass(frozen=True, slots=True)
class Sides:
    """The columns that an expression may name; None where there is no such row.

    Attributes:
        target: Of the table.
        source: Of the data, as `sourced` has them.
    """

    target: Schema | None
    source: Schema | None

    def resolve(self, names: list[str]) -> Column:
        """The column that dotted names lead to.

        Raises:
            InvalidExpression: There is none, or one on either side.
        """
        side, rest = names[0].lower(), names[1:]
        if rest and side == TARGET:
            return resolve(rest, self._there(self.target, "the table", names))
        if rest and side == SOURCE:
            return _of_source(rest, self._there(self.source, "the data", names))
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
        return _of_source(names, self._there(self.source, "the data", names))

    def _there(self, schema: Schema | None, what: str, names: list[str]) -> Schema:
        if schema is None:
            told = f"There is no row of {what} here, so {'.'.join(names)} has no value."
            raise InvalidExpression(told, column=".".join(names))
        return schema


def source_name(name: str) -> str:
    """What a column of the data is called beside those of the table."""
    return _MARK + name


def is_source(field: Field) -> bool:
    """Whether a field is one of the data."""
    return field.name.startswith(_MARK)


def sources(expression: Expression) -> set[str]:
    """The columns of the data that an expression reads, by the names the data has for them."""
    return {name.removeprefix(_MARK) for name in _read(expression, of_source=True)}


def targets(expression: Expression) -> set[str]:
    """The columns of the table that an expression reads."""
    return _read(expression, of_source=False)


def _read(expression: Expression, *, of_source: bool) -> set[str]:
    fields = [node.field for node in walk(expression) if isinstance(node, Column)]
    return {f.name for f in fields if is_source(f) is of_source}


def _of_source(names: list[str], schema: Schema) -> Column:
    found = resolve(names, schema)
    # Ids tell columns of the table; the data has none of them.
    return Column(replace(found.field, id=0, name=source_name(found.field.name)), found.path)


def _lowered(schema: Schema) -> set[str]:
    return {name.lower() for name in schema.names}
