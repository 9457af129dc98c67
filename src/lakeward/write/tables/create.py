"""Create tables in the lake, and take them out of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lakeward.context import LakeContext
from lakeward.engines.arrow.files import FORMATS
from lakeward.engines.arrow.like import schema_like
from lakeward.errors import AlreadyExists, InvalidInput, LakewardError
from lakeward.formats.base import Ratified
from lakeward.formats.policy import as_properties
from lakeward.formats.registry import format_named
from lakeward.log import heads, policies, transactions
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
from lakeward.write.commit.outcome import ratify_surely, recorded
from lakeward.write.commit.publications import publish_member
from lakeward.write.commit.ratify import Intent, timestamp_after
from lakeward.write.commit.record import Draft, discarding
from lakeward.write.keys.declare import check_references
from lakeward.write.stage.checks import check_constraints
from lakeward.write.stage.remote_files import located
from lakeward.write.tables.own_policy import own_fields, taken_over
from lakeward.write.tables.properties import check_properties

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The initial content of a new table.

    Attributes:
        operation: The operation that history shows.
        parameters: The operation's parameters; the partitioning unless given.
        files: Its first files.
        domains: The table's domain metadata.
        note: Called with the session and the new table's head before anything is committed.
    """

    operation: str = "CREATE TABLE"
    parameters: Mapping[str, str] | None = None
    files: tuple[DataFile, ...] = ()
    domains: Mapping[str, str | None] = field(default_factory=dict)
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
    given = own_fields(format, policy)
    with context.database.read() as session:
        taken = taken_over(format, name, given, policies.for_table(session, name))
    definition = define(
        columns_of(schema, located(like, context.storage)),
        format,
        partition_by=arguments.texts(by, "partition_by"),
        properties={**taken, **settings, **as_properties(format, given)},
        constraints={**(given.constraints or {}), **arguments.mapping(constraints, "constraints")},
        comment=arguments.optional_text(comment, "comment"),
        guard=arguments.flag(guard, "guard"),
    )
    if foreign_keys(definition):
        guarded = guard or format_named(format).always_guarded
        with context.database.read() as session:
            check_references(context, session, name, definition, guarded=guarded)
    try:
        return make(context, name, format, definition, guard=guard)
    except AlreadyExists:
        with context.database.read() as session:
            there = heads.find(session, name) if if_not_exists else None
        if there is None:
            raise
        # Another process made it meanwhile.
        return there


def columns_of(schema: Any, like: Any) -> Any:
    """Return the columns of a new table, given by exactly one of the two. Raises `InvalidInput`."""
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
    """Whether something has rows, or is the path of a file that has."""
    if isinstance(schema, str | Path):
        return Path(schema).suffix.lower() in FORMATS
    return hasattr(schema, "__arrow_c_stream__") or hasattr(schema, "columns")


def drop(context: LakeContext, name: TableName) -> None:
    """Take a table out of the lake, unless a transaction holds it; its files stay."""
    with context.database.write() as session:
        found = heads.get(session, name)
        head = heads.lock(session, found.table_id, name)
        check_locks(context, session, [(head, LockMode.WRITE)])
        # Later than its last version even by a clock that is behind, so that cuts agree.
        drop_tables(context, session, [head], timestamp_after([head]), None)


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
    """Return the definition of a new table; raise `InvalidInput` or `UnsupportedFeature`."""
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
    """Create a table of a definition, with the files that it begins with.

    It is published unless the warehouse fails after the table was recorded. Raises `AlreadyExists`
    if the name or the location is taken, `OutcomeUnknown` if the store did not answer.
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
            # It happened, and the answer was lost.
            return done
        now = now_ms()
        definition = replace(definition, created_ms=now)
        register(context, session, transaction_id)
        parameters = begin.parameters or creation_parameters(definition)
        info = own_info(context, transaction_id, begin.operation, parameters)
        draft = Draft(now, info, definition, added=begin.files, domains=begin.domains)
        new = new_head(context, session, name, format, guard=guard)
        members.append(begin_table(context, session, new, draft, [], begin.note))
        transactions.end(session, transaction_id, TransactionState.RATIFIED, now)
    return members
