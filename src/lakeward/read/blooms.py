"""Skips files whose Bloom filters exclude the values of a condition.

Only conditions that a column equals a value, or one of several, are used. Table properties list the
columns that have filters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from lakeward.engines.arrow.bloom import can_probe, file_may_have
from lakeward.formats.policy import blooms_of
from lakeward.formats.registry import format_of
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Column, Compare, Expression, In, Literal, conjuncts
from lakeward.model.file import LoggedFile, is_full
from lakeward.model.types import Field, file_id
from lakeward.model.values import Value
from lakeward.storage.base import Storage

_MOST_VALUES: Final = 100
_MOST_FILES: Final = 100_000
_THREADS: Final = 8


def without_excluded(
    storage: Storage,
    head: Head,
    definition: Definition,
    files: Sequence[LoggedFile],
    where: Expression | None,
) -> list[LoggedFile]:
    """Return the files whose Bloom filters do not exclude a matching row."""
    if where is None or not 1 < len(files) <= _MOST_FILES:
        return list(files)
    wanted = _wanted(definition, where, blooms_of(head, definition))
    if not wanted:
        return list(files)
    form = format_of(head)
    stored = form.stored(definition).schema
    named = {_in_files(stored.by_id[f.id]): values for f, values in wanted.items()}
    filesystem, root = storage.arrow_filesystem()
    base = head.location if is_full(head.location) else f"{root}/{head.location}"
    by_id = form.finds_by_id(definition)

    def may_have(file: LoggedFile) -> bool:
        if file.path.startswith("/"):
            path = file.path
        elif is_full(file.path):
            return True
        else:
            path = f"{base}/{file.path}"
        return file_may_have(filesystem, path, named, by_id=by_id)

    with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
        return [f for f, may in zip(files, pool.map(may_have, files), strict=True) if may]


def _in_files(field: Field) -> Field:
    number = file_id(field)
    return field if number is None else replace(field, id=number)


def _wanted(
    definition: Definition, where: Expression, names: frozenset[str]
) -> Mapping[Field, Sequence[Value]]:
    """Return, by column, the values that a condition requires of columns with filters.

    `names` are the columns that have filters.
    """
    out: dict[Field, Sequence[Value]] = {}
    for term in conjuncts(where) if names else ():
        match term:
            case Compare("=", Column(field, ()), Literal(value)):
                values: tuple[Value, ...] = (value,)
            case Compare("=", Literal(value), Column(field, ())):
                values = (value,)
            case In(Column(field, ()), literals):
                values = tuple(literal.value for literal in literals)
            case _:
                continue
        is_usable = field.name in names and can_probe(field) and None not in values
        if is_usable and len(values) <= _MOST_VALUES and field.id not in definition.partition_by:
            out[field] = values
    return out
