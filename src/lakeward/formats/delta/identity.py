"""Identity columns of Delta tables, in field metadata: `delta.identity.start`, `.step` and so on.

The mark of a column, `delta.identity.highWaterMark`, is the furthest value that was assigned. Delta
keeps it in the schema, so that every commit that assigns values has a `metaData` action. The log
keeps marks apart from the definition, among the domain metadata of commits, so that an append does
not change the definition. Marks are added to the schema when a commit or a checkpoint is written,
and removed from it when one is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from lakeward.errors import CorruptTable, InvalidInput
from lakeward.formats.ratified import Ratified
from lakeward.log import domains, identity
from lakeward.log.database import Session
from lakeward.model.definition import Definition
from lakeward.model.identity import Identity
from lakeward.model.schema import IDENTITY_AS, Schema
from lakeward.model.types import Field, Primitive

FEATURE: Final = "identityColumns"
DOMAIN: Final = "lakeward.identity"
"""The domain under which the log keeps marks. It is not published: marks are in the schema."""
_PREFIX: Final = "delta.identity."
_START: Final = f"{_PREFIX}start"
_STEP: Final = f"{_PREFIX}step"
_EXPLICIT: Final = f"{_PREFIX}allowExplicitInsert"
_MARK: Final = f"{_PREFIX}highWaterMark"


def is_identity(field: Field) -> bool:
    """Return whether a column is an identity column."""
    return _START in field.metadata


def is_counted(definition: Definition) -> bool:
    """Return whether the marks of a table's identity columns are in the log.

    They are not if an older Lakeward adopted the table, which left the marks in the definition.
    """
    found = [f for f in definition.schema.fields if is_identity(f)]
    return all(f.id in definition.identity and _MARK not in f.metadata for f in found)


def identity_of(schema: Schema) -> dict[int, Identity]:
    """Return start and step of each identity column of a schema, by column id."""
    return {f.id: _identity(f) for f in schema.fields if is_identity(f)}


def spelled(field: Field) -> Field:
    """Return a column of a new table, with its identity in Delta's field metadata.

    Raise `InvalidInput` if the column cannot be an identity column.
    """
    text = field.metadata.get(IDENTITY_AS)
    if text is None:
        return field
    counted = Identity.from_json(orjson.loads(text)).check(field.name)
    if field.type != Primitive("int64"):
        what = f"Column {field.name} is {field.type}, and an identity column is int64."
        raise InvalidInput(what, hint="Declare it as bigint.", column=field.name)
    if field.default is not None:
        what = f"Column {field.name} has a default and is an identity column."
        raise InvalidInput(what, hint="Leave one of them out.", column=field.name)
    kept = {k: v for k, v in field.metadata.items() if k != IDENTITY_AS}
    own = {_START: counted.start, _STEP: counted.step, _EXPLICIT: counted.explicit}
    return replace(field, metadata={**kept, **own})


def marks_of(found: Mapping[str, str | None]) -> dict[int, int]:
    """Return the marks among domain metadata, by column id."""
    text = found.get(DOMAIN)
    return {} if text is None else {int(i): mark for i, mark in orjson.loads(text).items()}


def as_domain(marks: Mapping[int, int]) -> dict[str, str | None]:
    """Return marks as domain metadata for the log; empty if there are no marks."""
    text = orjson.dumps({str(i): marks[i] for i in sorted(marks)}).decode()
    return {DOMAIN: text} if marks else {}


def published(found: Mapping[str, str | None]) -> list[tuple[str, str | None]]:
    """Return the domain metadata to publish, sorted by domain: all except the marks."""
    return sorted((name, text) for name, text in found.items() if name != DOMAIN)


def with_marks(schema: Schema, marks: Mapping[int, int]) -> Schema:
    """Return a schema with the marks in the metadata of its identity columns."""
    if not marks:
        return schema
    fields = tuple(
        replace(f, metadata={**f.metadata, _MARK: marks[f.id]})
        if f.id in marks and is_identity(f)
        else f
        for f in schema.fields
    )
    return Schema(fields, schema.last_id)


def without_marks(definition: Definition) -> tuple[Definition, dict[int, int]]:
    """Return a definition without the marks in its schema, and the marks by column id."""
    marks = {f.id: _number(f, _MARK) for f in definition.schema.fields if _MARK in f.metadata}
    if not marks:
        return definition, {}
    fields = tuple(
        replace(f, metadata={k: v for k, v in f.metadata.items() if k != _MARK})
        for f in definition.schema.fields
    )
    schema = Schema(fields, definition.schema.last_id)
    return replace(definition, schema=schema), marks


def newest_marks(session: Session, table_id: int) -> dict[int, int]:
    """Return the newest marks of a table, by column id."""
    return marks_of({DOMAIN: domains.newest(session, table_id, DOMAIN)})


def marked(session: Session, member: Ratified) -> Ratified:
    """Return the commit with the marks to publish. The caller holds the table's lock.

    A mark is at or beyond all values that were assigned, also in transactions that are not
    committed yet. A commit has marks if it adds rows and a mark changed, or if it changes the
    definition. A dropped column keeps its mark, because a restore may bring the column back.
    """
    head, commit, definition = member.head, member.commit, member.definition
    known = newest_marks(session, head.table_id)
    now = dict(known)
    brought = marks_of(commit.domains)
    for own, counted in definition.identity.items():
        taken = identity.taken(session, head.uuid, own)
        found = [m for m in (known.get(own), brought.get(own)) if m is not None]
        if taken:
            found.append(counted.value(taken - 1))
        if found:
            now[own] = counted.furthest(*found)
    rest = {name: text for name, text in commit.domains.items() if name != DOMAIN}
    is_due = commit.definition is not None or (bool(commit.added) and now != known)
    if is_due:
        rest |= as_domain(now)
    return replace(member, commit=replace(commit, domains=rest))


def _identity(field: Field) -> Identity:
    explicit = field.metadata.get(_EXPLICIT) is True
    step = _number(field, _STEP) if _STEP in field.metadata else 1
    if not step:
        raise _damaged(field, _STEP)
    return Identity(_number(field, _START), step, explicit)


def _number(field: Field, key: str) -> int:
    found: Any = field.metadata[key]
    if type(found) is not int:
        raise _damaged(field, key)
    return found


def _damaged(field: Field, key: str) -> CorruptTable:
    what = f"Column {field.name} has the {key} {field.metadata.get(key)!r}."
    return CorruptTable(what, hint="Its log is damaged.", column=field.name)
