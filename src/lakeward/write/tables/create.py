"""Creates tables in the lake, and drops them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lakeward.context import LakeContext
from lakeward.engines.arrow.files import FORMATS
from lakeward.engines.arrow.like import schema_like
from lakeward.errors import (
    AlreadyExists,
    CorruptTable,
    ForeignCommit,
    InvalidInput,
    LakewardError,
    UnsupportedFeature,
)
from lakeward.formats.base import Ratified
from lakeward.formats.registry import format_named
from lakeward.log import heads, positions, transactions
from lakeward.log.database import Session
from lakeward.model import arguments
from lakeward.model.clock import now_ms
from lakeward.model.commit import (
    Head,
    Isolation,
    TransactionState,
    new_transaction_id,
)
from lakeward.model.constraints import Constraint, foreign_keys
from lakeward.model.definition import Definition
from lakeward.model.evolution.columns import with_declared_defaults
from lakeward.model.file import DataFile
from lakeward.model.locks import LockMode
from lakeward.model.names import TableName
from lakeward.model.policy.policy import Policy
from lakeward.model.schema import Schema
from lakeward.write.commit.conflict import check_locks
from lakeward.write.commit.dropping import drop_tables
from lakeward.write.commit.new_table import (
    begin_table,
    creation_parameters,
    new_head,
    own_info,
    register,
)
from lakeward.write.commit.once import is_first
from lakeward.write.commit.outcome import ratify_surely, recorded
from lakeward.write.commit.publications import publish_member, take_over
from lakeward.write.commit.ratify import Intent, timestamp_after
from lakeward.write.commit.record import Draft, discarding
from lakeward.write.keys.declare import check_references, lock_references
from lakeward.write.stage.checks import check_constraints
from lakeward.write.stage.remote_files import located
from lakeward.write.tables.own_policy import made_with
from lakeward.write.tables.properties import check_properties

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The initial content of a new table.

    Attributes:
        operation: The operation of the first commit, for the history.
        parameters: The operation's parameters; by default the partitioning.
        files: The table's first files.
        domains: The table's domain metadata.
        sources: Tables to lock, besides those that foreign keys refer to.
        note: Called with the session and the new table's head before anything is committed.
    """

    operation: str = "CREATE TABLE"
    parameters: Mapping[str, str] | None = None
    files: tuple[DataFile, ...] = ()
    domains: Mapping[str, str | None] = field(default_factory=dict)
    sources: tuple[Head, ...] = ()
    note: Callable[[Session, Head], None] | None = None


def create(
    context: LakeContext,
    name: TableName,
    schema: Any,
    *,
    like: Any = None,
    if_not_exists: bool = False,
    format: str,  # noqa: A002  the name users know
    partition_by: Sequence[str],
    properties: Mapping[str, str] | None,
    policy: Policy | Mapping[str, Any] | None,
    constraints: Mapping[str, str | Constraint] | None,
    comment: str | None,
    guard: bool,
) -> Head:
    """Create an empty table; `Lake.create` documents the arguments and errors."""
    if if_not_exists:
        with context.database.read() as session:
            there = heads.find(session, name)
        if there is not None:
            return there
    by = [partition_by] if isinstance(partition_by, str) else partition_by
    settings = arguments.mapping(properties, "properties")
    merged, checks = made_with(context, format, name, policy, settings)
    definition = define(
        columns_of(schema, located(like, context.storage)),
        format,
        partition_by=arguments.texts(by, "partition_by"),
        properties=merged,
        constraints={**checks, **arguments.mapping(constraints, "constraints")},
        comment=arguments.optional_text(comment, "comment"),
        guard=arguments.flag(guard, "guard"),
    )
    if foreign_keys(definition):
        guarded = guard or format_named(format).always_guarded
        with context.database.read() as session:
            check_references(context, session, name, definition, guarded=guarded)
    try:
        return make(context, name, format, definition, guard=guard)
    except AlreadyExists as error:
        with context.database.read() as session:
            there = heads.find(session, name)
        if there is None:
            raise
        if not if_not_exists:
            hint = (
                "Choose another name, or give if_not_exists=True (--if-not-exists) to use this one."
            )
            raise AlreadyExists(error.what, hint=hint, **error.facts) from error
        # Another process made it meanwhile.
        return there


def columns_of(schema: Any, like: Any) -> Any:
    """Return a new table's columns; raise `InvalidInput` unless one of the arguments is given."""
    if like is None and schema is not None:
        if _is_data(schema):
            what = "The columns are given by data instead of a schema."
            hint = "To take the columns of a frame or a file, write lake.create(name, like=…)."
            raise InvalidInput(what, hint=hint, parameter="schema")
        return schema
    if like is None or schema is not None:
        what = "A new table needs its columns, by `schema` or by `like`."
        hint = 'Write lake.create(name, "id int64, …") or lake.create(name, like=frame).'
        raise InvalidInput(what, hint=hint, parameter="schema")
    return schema_like(like)


def _is_data(schema: Any) -> bool:
    """Return whether a value has rows, or is the path of a data file."""
    if isinstance(schema, str | Path):
        return Path(schema).suffix.lower() in FORMATS
    return hasattr(schema, "__arrow_c_stream__") or hasattr(schema, "columns")


def drop(context: LakeContext, name: TableName, key: str | None = None) -> None:
    """Drop a table, unless a transaction has locked it; its files stay.

    Commits that other engines made to it are taken over first, so that `undrop` restores them,
    unless the table refuses them. With a key, chosen by the caller, repeated calls drop the table
    once.
    """
    with context.database.write() as session:
        if not is_first(context, session, key, f"drop {name}"):
            return
        found = heads.get(session, name)
        head = heads.lock(session, found.table_id, name)
        check_locks(context, session, [(head, LockMode.WRITE)])
        # Neither a commit of another engine that cannot be read nor another table in the place of
        # this one keeps it from being dropped.
        with suppress(CorruptTable, ForeignCommit, UnsupportedFeature):
            take_over(context, session, head)
        # Commits before one that cannot be read are recorded.
        head = heads.lock(session, found.table_id, name)
        # Later than its last version even by a clock that is behind, so that cuts agree.
        at_ms, position = timestamp_after([head]), positions.take(session)
        drop_tables(context, session, [head], at_ms, position, None)


def define(
    schema: Any,
    format: str,  # noqa: A002  the name users know
    *,
    partition_by: Sequence[str],
    properties: Mapping[str, Any],
    constraints: Mapping[str, str | Constraint],
    comment: str | None,
    guard: bool,
) -> Definition:
    """Return a new table's definition; raise `InvalidInput` or `UnsupportedFeature` if invalid."""
    kind = format_named(format)
    columns = with_declared_defaults(Schema.of(schema))
    parts = kind.partition(columns, partition_by, guard=guard)
    checked = check_properties(properties)
    checks, held = check_constraints(constraints, parts.schema)
    definition = kind.define(parts, checked, checks, comment, guard=guard)
    if not held:
        return definition
    return replace(definition, properties={**definition.properties, **held})


def make(
    context: LakeContext,
    name: TableName,
    format: str,  # noqa: A002  the name users know
    definition: Definition,
    *,
    guard: bool,
    begin: Beginning | None = None,
) -> Head:
    """Create a table with a definition and its first files; return its head.

    If publishing fails, the table exists, and is published later. Raises `AlreadyExists` if the
    name or the location is in use, `OutcomeUnknown` if the store did not respond.
    """
    first = begin or Beginning()

    def once(context: LakeContext, intent: Intent) -> list[Ratified]:
        return _ratify(
            context, intent.transaction_id, name, format, definition, guard=guard, begin=first
        )

    intent = Intent(new_transaction_id(), Isolation.SNAPSHOT, message=None, attempts=1, changes=())
    (member,) = ratify_surely(context, intent, once)
    try:
        publish_member(context, member)
    except LakewardError as error:
        # The table exists; the next process that opens the lake publishes it.
        _LOG.warning("Table %s is made and not yet published: %s", name, error)
    return member.head


def _ratify(
    context: LakeContext,
    transaction_id: str,
    name: TableName,
    format: str,  # noqa: A002  the name users know
    definition: Definition,
    *,
    guard: bool,
    begin: Beginning,
) -> list[Ratified]:
    with discarding() as members, context.database.write() as session:
        context.database.lock_schema(session)
        context.check_bound(session)
        done = recorded(session, transaction_id)
        if done:
            # The commit succeeded, but its response was lost.
            return done
        now = now_ms()
        definition = replace(definition, created_ms=now)
        register(context, session, transaction_id)
        parameters = begin.parameters or creation_parameters(definition)
        info = own_info(context, transaction_id, begin.operation, parameters)
        draft = Draft(now, info, definition, added=begin.files, domains=begin.domains)
        new = new_head(context, session, name, format, guard=guard)
        if foreign_keys(definition) or begin.sources:
            lock_references(session, name, definition, begin.sources)
            check_references(context, session, name, definition, guarded=new.guarded)
        members.append(begin_table(context, session, new, draft, [], begin.note))
        transactions.end(session, transaction_id, TransactionState.RATIFIED, now)
    return members
