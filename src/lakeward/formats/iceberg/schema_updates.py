"""Checks the schemas that REST clients add to a table, which become its schemas as they are.

Rows that were written before must fit a new schema: files are not rewritten for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakeward.errors import InvalidInput
from lakeward.formats.iceberg.definition import schemas_of

_WIDER: Final = {("int", "long"), ("float", "double")}
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


@dataclass(frozen=True, slots=True)
class Part:
    """A field of a schema: a column, or a part of one.

    Attributes:
        id: The field's id.
        path: The names of the columns around it and its own, separated by dots.
        type: The name of its type, without the fields inside.
        required: Whether each row has a value.
        filled: Whether rows of older files have a default.
        above: The ids of the fields around it, the outermost first.
    """

    id: int
    path: str
    type: str
    required: bool
    filled: bool
    above: tuple[int, ...]


def parts_of(schema: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the fields of a schema's JSON, each before the fields inside it."""
    yield from _fields(schema["fields"], "", ())


def check_added(schema: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` if ids or names of a schema are ambiguous.

    pyiceberg has checked the rest: names that appear twice, and the types of identifier fields.
    """
    known: dict[int, str] = {}
    for part in parts_of(schema):
        if part.id in known:
            what = f"The fields {known[part.id]} and {part.path} have the same `id` {part.id}."
            raise InvalidInput(what, column=part.path)
        prefix = f"{known[part.above[-1]]}." if part.above else ""
        if part.path == prefix:
            raise InvalidInput(f"The field with the `id` {part.id} has no `name`.")  # noqa: EM102
        known[part.id] = part.path
    identifiers = schema.get("identifier-field-ids") or []
    if len(set(identifiers)) != len(identifiers):
        raise InvalidInput(f"The `identifier-field-ids` {identifiers} name a field twice.")  # noqa: EM102


def check_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` if rows that exist do not fit the schemas of a new document.

    `before` and `after` are the bodies of the documents. New schemas are compared with the current
    one of `before`, and with older ones for columns that it lacks.
    """
    old, new = schemas_of(before), schemas_of(after)
    current, chosen = before.get("current-schema-id", 0), after.get("current-schema-id", 0)
    changed = [
        schema
        for number, schema in new.items()
        if schema != old.get(number) or number == chosen != current
    ]
    if not changed:
        return
    ordered = sorted(old, key=lambda number: (number == current, number))
    known = {part.id: part for number in ordered for part in parts_of(old[number])}
    present = {part.id for part in parts_of(old[current])}
    for schema in changed:
        _check_parts(parts_of(schema), known, present)


def _check_parts(parts: Iterable[Part], known: Mapping[int, Part], present: set[int]) -> None:
    for part in parts:
        found = known.get(part.id)
        if found is not None:
            _check_type(found, part)
        is_new = part.id not in present
        if not part.required or part.filled:
            continue
        if is_new and all(number in present for number in part.above):
            what = f"The new column {part.path} is required, and rows that exist have no value."
            raise InvalidInput(what, hint=_OPTIONAL, column=part.path)
        if not is_new and not known[part.id].required:
            what = f"Column {part.path} cannot become required: rows that exist may have no value."
            raise InvalidInput(what, hint=_OPTIONAL, column=part.path)


def _check_type(old: Part, new: Part) -> None:
    if not _is_wider(old.type, new.type):
        what = (
            f"Column {new.path} with the `id` {new.id} cannot become {new.type}: it is {old.type},"
            " and Iceberg does not widen that."
        )
        raise InvalidInput(what, hint=_TYPES, column=new.path)
    if old.above != new.above:
        what = f"Column {old.path} with the `id` {new.id} cannot move to {new.path}."
        raise InvalidInput(what, hint="Add a column with another id.", column=new.path)


def _is_wider(old: str, new: str) -> bool:
    if old == new or (old, new) in _WIDER:
        return True
    first, then = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if first is None or then is None:
        return False
    return int(first[1]) <= int(then[1]) and int(first[2]) == int(then[2])


def _fields(fields: Iterable[Any], prefix: str, above: tuple[int, ...]) -> Iterator[Part]:
    for field in fields:
        path, kind = f"{prefix}{field['name']}", field["type"]
        filled = field.get("initial-default") is not None
        yield from _part(
            field["id"], path, kind, above, required=bool(field.get("required")), filled=filled
        )


def _part(
    number: int,
    path: str,
    kind: Any,
    above: tuple[int, ...],
    *,
    required: bool,
    filled: bool = False,
) -> Iterator[Part]:
    is_nested = isinstance(kind, Mapping)
    name = str(kind["type"] if is_nested else kind)
    yield Part(number, path, name, required, filled, above)
    if not is_nested:
        return
    inside = (*above, number)
    yield from _fields(kind.get("fields") or (), f"{path}.", inside)
    for part in ("element", "key", "value"):
        if f"{part}-id" in kind:
            is_required = bool(kind.get(f"{part}-required", part == "key"))
            own = f"{path}.{part}"
            yield from _part(kind[f"{part}-id"], own, kind[part], inside, required=is_required)


_TYPES: Final = "Iceberg widens int to long, float to double, and decimals to more digits."
_OPTIONAL: Final = "Leave it optional, or give a new column an `initial-default`."
