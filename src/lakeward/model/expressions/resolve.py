"""Names in an expression, as columns of the schema."""

from __future__ import annotations

import difflib

from lakeward.errors import InvalidExpression
from lakeward.model.expressions.nodes import Column
from lakeward.model.schema import Schema
from lakeward.model.types import Field, Struct


def resolve(names: list[str], schema: Schema) -> Column:
    """The column, or the member of a struct, that dotted names lead to.

    A name is taken exactly as written if there is one, otherwise without regard to case.

    Raises:
        InvalidExpression: There is none, or more than one but for case.
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
    what = f"Column {of.name!r} has no member {name!r}." if of else f"There is no column {name!r}."
    return InvalidExpression(what, hint=hint, column=column)
