"""Opens a sink: checks its arguments, and opens or creates its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import (
    AlreadyExists,
    InvalidInput,
    SchemaMismatch,
    TableNotFound,
    UnsupportedFeature,
)
from lakeward.log import heads
from lakeward.model import arguments
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.names import TableName
from lakeward.model.schema import Schema
from lakeward.stream.changes import check_key
from lakeward.stream.evolving import Evolving
from lakeward.stream.queue import Limits
from lakeward.stream.sink import Sink
from lakeward.stream.table import Mode, SinkTable, WriterInstance
from lakeward.write.commit.publications import follow
from lakeward.write.plan.change import Change
from lakeward.write.stage.checks import check_deletable, check_writable
from lakeward.write.transaction.transaction import Transaction


def opened_sink(
    context: LakeContext,
    begin: Callable[[], Transaction],
    create: Callable[[], object],
    name: str,
    *,
    writer_id: str,
    mode: str,
    key: object,
    schema: Any,
    format: str | None,  # noqa: A002  the name users know
    gaps: bool,
    limits: Limits,
    schema_mode: object = None,
) -> Sink:
    """Open a sink; see `lake.sink`."""
    table = TableName.parse(name)
    arguments.text(writer_id, "writer_id")
    wanted = arguments.choice(mode, Mode, "mode")
    arguments.flag(gaps, "gaps")
    _check_limits(limits)
    head, definition = _opened(context, table, schema, format=format, create=create)
    names = _check_mode(head, definition, wanted, key)
    evolving = Evolving.of(context, begin, head, definition, schema_mode)
    writer = WriterInstance.take(context, head, writer_id)
    made = SinkTable(context, writer, definition, wanted, limits, names, evolving)
    return Sink(context, begin, made, gaps=gaps)


def _opened(
    context: LakeContext,
    name: TableName,
    schema: Any,
    *,
    format: str | None,  # noqa: A002  the name users know
    create: Callable[[], object],
) -> tuple[Head, Definition]:
    """Open the table, or create it if a schema was given; check its format and columns."""
    found = _found(context, name)
    if found is None:
        if schema is None:
            with context.database.read() as session:
                error = heads.missing(session, name)
            hint = f"{error.hint} To make it, give its columns: schema=, or --schema in a command."
            raise TableNotFound(error.what, hint=hint, table=str(name))
        try:
            create()
        except AlreadyExists:
            # If another sink created the table first, use it; otherwise raise the error.
            if _found(context, name) is None:
                raise
        found = _found(context, name)
        assert found is not None  # noqa: S101  it was just made
    head, definition = found
    if format is not None and head.format != format:
        what = f"Table {name} is a {head.format} table, not {format}."
        raise InvalidInput(what, hint="Leave format= out.", table=str(name))
    if schema is not None:
        _check_schema(name, definition.schema, Schema.of(schema))
    return head, definition


def _check_mode(head: Head, definition: Definition, mode: Mode, key: object) -> tuple[str, ...]:
    """Check that the table can be written in this mode; return the key's columns."""
    change = Change(head, definition)
    check_writable(change)
    if mode is not Mode.APPEND:
        check_deletable(change)
    names = _key(key)
    if mode is Mode.UPSERT and definition.identity:
        what = f"Table {head.name} has an identity column, and changes would give rows new values."
        hint = "Merge with tx.merge, which keeps the values of rows that are there."
        raise UnsupportedFeature(what, hint=hint, table=str(head.name))
    if mode is Mode.UPSERT and not names:
        what = f"Changes of {head.name} are merged by key, and there is none."
        raise InvalidInput(what, hint="Give key=[...], or --key.", table=str(head.name))
    if mode is not Mode.UPSERT and names:
        what = f"Only mode='upsert' has a key; this one is {mode.value}."
        raise InvalidInput(what, table=str(head.name))
    for column in names:
        if column not in definition.schema.by_name:
            what = f"Table {head.name} has no column {column!r}."
            hint = f"It has {', '.join(definition.schema.names)}."
            raise InvalidInput(what, hint=hint, table=str(head.name), column=column)
    if names:
        check_key([definition.schema.by_name[n] for n in names], str(head.name))
    return names


def _check_limits(limits: Limits) -> None:
    arguments.whole(limits.rows, "flush_rows", least=1)
    arguments.whole(limits.bytes, "flush_bytes", least=1)
    arguments.number(limits.seconds, "flush_seconds")
    arguments.whole(limits.held_bytes, "max_bytes", least=1)
    arguments.whole(limits.threads, "threads", least=1)


def _key(key: object) -> tuple[str, ...]:
    if key is None:
        return ()
    found: Sequence[str] = [key] if isinstance(key, str) else arguments.texts(key, "key")
    if not found or len(set(found)) < len(found):
        what = "A key is made of one column or several different ones."
        raise InvalidInput(what, parameter="key")
    return tuple(found)


def _found(context: LakeContext, name: TableName) -> tuple[Head, Definition] | None:
    with context.database.read() as session:
        head = heads.find(session, name)
    if head is None:
        return None
    head = follow(context, head)
    with context.database.read() as session:
        return head, context.definition(session, head)


def _check_schema(name: TableName, has: Schema, asked: Schema) -> None:
    given = {f.name: f.type for f in asked}
    known = {f.name: f.type for f in has}
    if given == known:
        return
    # Columns that a table derives from others may be left out, as they may be in rows.
    wrong = [n for n in given if str(given[n]) != str(known.get(n))]
    missing = [n for n in known if n not in given]
    if not wrong and not missing:
        return
    parts = [f"{n} {given[n]} (the table has {known.get(n, 'none')})" for n in wrong]
    parts += [f"no {n}" for n in missing]
    what = f"Table {name} has other columns than the schema that was given: {', '.join(parts)}."
    hint = "Leave schema= out to write the table as it is."
    raise SchemaMismatch(what, hint=hint, table=str(name), columns=wrong + missing)
