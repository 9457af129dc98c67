"""How a rewrite lays out the rows of a table in its files."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import orjson

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.definition import Definition
from lakeward.model.types import Decimal, Primitive


class LayoutKind(StrEnum):
    """The order in which rows are written."""

    PACK = "pack"
    ZORDER = "zorder"
    HILBERT = "hilbert"
    SORT = "sort"


_PARAMETERS: Final = {
    LayoutKind.ZORDER: "zOrderBy",
    LayoutKind.HILBERT: "hilbertBy",
    LayoutKind.SORT: "sortBy",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """An order of rows and its columns; `pack` keeps the order of the rows."""

    kind: LayoutKind = LayoutKind.PACK
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f" by {', '.join(self.columns)}" if self.columns else ""
        return f"{self.kind.value}{by}"

    @property
    def parameters(self) -> dict[str, str]:
        """Return the layout as operation parameters for history, under Delta's names if any."""
        if self.kind is LayoutKind.PACK:
            return {}
        return {_PARAMETERS[self.kind]: orjson.dumps(self.columns).decode()}


def layout_from(parameters: Mapping[str, object]) -> Layout:
    """Return the layout in a commit's parameters; `pack` if they have none."""
    for kind, name in _PARAMETERS.items():
        found = parameters.get(name)
        try:
            listed = orjson.loads(found) if isinstance(found, str) else found
        except orjson.JSONDecodeError:
            continue
        if isinstance(listed, list) and listed and all(isinstance(c, str) for c in listed):
            return Layout(kind, tuple(listed))
    return Layout()


def layout_of(
    definition: Definition,
    table: str,
    *,
    zorder: Sequence[str] | str | None = None,
    hilbert: Sequence[str] | str | None = None,
    sort: Sequence[str] | str | None = None,
) -> Layout:
    """Return the requested layout; raise `InvalidInput` if it does not suit the table."""
    asked = {LayoutKind.ZORDER: zorder, LayoutKind.HILBERT: hilbert, LayoutKind.SORT: sort}
    given = {kind: columns for kind, columns in asked.items() if columns is not None}
    if len(given) > 1:
        names = " and ".join(kind.value for kind in given)
        what = f"Rows of {table} cannot be laid out by {names} at once."
        raise InvalidInput(what, hint="Give one of zorder, hilbert and sort.", table=table)
    for kind, columns in given.items():
        listed = [columns] if isinstance(columns, str) else columns
        return Layout(kind, _checked(definition, table, kind, arguments.texts(listed, kind.value)))
    return Layout()


def _checked(
    definition: Definition, table: str, kind: LayoutKind, names: Sequence[str]
) -> tuple[str, ...]:
    if not names:
        what = f"{kind.value} of {table} needs at least one column."
        raise InvalidInput(what, hint=f"Its columns are {', '.join(definition.schema.names)}.")
    for name in names:
        facts = {"table": table, "column": name}
        field = definition.schema.by_name.get(name)
        if field is None:
            what = f"{kind.value} by {name!r}: table {table} has no such column."
            raise InvalidInput(what, hint=_near(name, definition), **facts)
        if names.count(name) > 1:
            what = f"{kind.value} of {table}: column {name!r} is named more than once."
            raise InvalidInput(what, **facts)
        if not isinstance(field.type, Primitive | Decimal):
            what = f"{kind.value} by {name!r}: it is nested ({field.type}) and has no order."
            raise InvalidInput(what, hint="Order by columns of single values.", **facts)
        if field.id in definition.partition_columns:
            what = f"{kind.value} by {name!r}: it partitions {table}, so each file has one value."
            raise InvalidInput(what, hint="Order by columns that differ in a file.", **facts)
    return tuple(names)


def _near(name: str, definition: Definition) -> str:
    near = difflib.get_close_matches(name, definition.schema.names, 1)
    hint = f"It has {', '.join(definition.schema.names)}."
    return f"Did you mean {near[0]!r}? {hint}" if near else hint
