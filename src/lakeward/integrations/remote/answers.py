"""Answers of the service: JSON objects, whose entries are attributes with the types of records."""

from __future__ import annotations

import builtins
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from datetime import date, datetime, time
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from lakeward.model.records import json_names, to_json
from lakeward.model.schema import Schema


class Answer(Mapping[str, Any]):
    """A JSON object of the service, whose entries can also be read as attributes.

    As attributes, entries have the types that they have in the record of a lake: `one.timestamp` is
    a datetime where `one["timestamp"]` is its text.

    Args:
        body: The JSON object.
        kind: The class of the record that it is; None if it is none.
    """

    def __init__(self, body: Mapping[str, Any], kind: type | None = None) -> None:
        self._body = body
        self._kind = kind

    def __getitem__(self, key: str) -> Any:
        return wrapped(self._body[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._body)

    def __len__(self) -> int:
        return len(self._body)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            types_of, names = ({}, {}) if self._kind is None else _typed(self._kind)
            key = names.get(name, name)
            if key in self._body:
                return revived(types_of.get(name, Any), self._body[key])
        message = f"the answer has no {name!r}; it has {', '.join(self._body)}"
        raise AttributeError(message)

    def __eq__(self, other: object) -> bool:
        """Whether the other is an answer, an object or a record with the same entries."""
        if self._kind is not None and isinstance(other, self._kind):
            return bool(self._body == to_json(other))
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Answer({self._body!r})"


class File(NamedTuple):
    """A file that only one of two versions has.

    Attributes:
        rows: The number of rows in the file, deleted ones included; None if unknown.
    """

    path: str
    size: int
    rows: int | None


class Difference(Answer):
    """The difference between two versions of a table: see `lakeward.Diff`."""

    @property
    def added_files(self) -> tuple[File, ...]:
        """Files that only the second version has."""
        return tuple(File(f.path, f.bytes, f.rows) for f in self.files_added)

    @property
    def removed_files(self) -> tuple[File, ...]:
        """Files that only the first version has."""
        return tuple(File(f.path, f.bytes, f.rows) for f in self.files_removed)

    @property
    def is_empty(self) -> bool:
        """Whether the two versions have the same files and definition."""
        return not (
            self.added_files or self.removed_files or self.schema_changes or self.properties
        )


def wrapped(value: Any) -> Any:
    """Return a JSON value, with objects as answers."""
    match value:
        case dict():
            return Answer(value)
        case list():
            return [wrapped(one) for one in value]
        case _:
            return value


def revived(kind: Any, value: Any) -> Any:
    """Return the value of a type that was written as JSON; `wrapped` if the type is not known."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if value is None:
        return None
    if origin in (typing.Union, types.UnionType):
        known = [one for one in arguments if one is not type(None)]
        return revived(known[0], value) if len(known) == 1 else wrapped(value)
    if origin in (tuple, list) and isinstance(value, list):
        made = (revived(arguments[0], one) for one in value)
        return origin(made)
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, dict):
        keys, values = arguments
        return {revived(keys, k): revived(values, v) for k, v in value.items()}
    if isinstance(kind, type):
        return _of_class(kind, value)
    return wrapped(value)


def _of_class(kind: Any, value: Any) -> Any:
    if kind in (datetime, date, time) and isinstance(value, str):
        return kind.fromisoformat(value)
    if kind in (int, float) and isinstance(value, str):
        # Keys of objects are text in JSON, as are NaN and infinities.
        return kind(value)
    if issubclass(kind, Enum):
        return kind(value)
    if issubclass(kind, Schema):
        return Schema.from_json(value)
    if isinstance(value, dict):
        if hasattr(kind, "__dataclass_fields__"):
            return Answer(value, kind)
        if hasattr(kind, "_fields"):
            of, _ = _typed(kind)
            return kind(**{name: revived(of[name], value.get(name)) for name in kind._fields})
    return wrapped(value)


@cache
def _typed(kind: type) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the types of a record's attributes, and the names that these have as JSON."""
    found = _hints(kind)
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, property) and member.fget is not None:
                found.setdefault(name, _hints(member.fget).get("return", Any))
    return found, json_names(kind) if is_dataclass(kind) else {}


def _hints(source: Any) -> dict[str, Any]:
    return typing.get_type_hints(source, localns=_Names(source.__module__))


class _Names(dict[str, Any]):
    """The names of a module; one that is imported only to check types is a record, or any type."""

    def __init__(self, module: str) -> None:
        super().__init__({**vars(builtins), **vars(sys.modules[module])})

    def __missing__(self, name: str) -> Any:
        return getattr(import_module("lakeward.lake.records"), name, Any)
