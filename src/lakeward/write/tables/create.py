"""New tables, and tables taken out of the lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import (
    InvalidInput,
    UnsupportedFeature,
)
from lakeward.formats.delta.generated import derived_of
from lakeward.formats.delta.protocol import ICT_PROPERTY, new_protocol
from lakeward.formats.iceberg.definition import new_protocol as new_iceberg_protocol
from lakeward.formats.iceberg.extra import check_installed
from lakeward.formats.iceberg.schema import schema_json
from lakeward.log import audit, heads
from lakeward.model import arguments
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.locks import LockMode
from lakeward.model.names import TableName
from lakeward.model.schema import Schema
from lakeward.write.commit import iceberg
from lakeward.write.commit.conflict import check_locks
from lakeward.write.commit.ratify import timestamp_after
from lakeward.write.plan import retry
from lakeward.write.plan.options import (
    APPEND_ONLY,
    CHECKPOINT_INTERVAL,
    COMPRESSION,
    ICEBERG_COMPRESSION,
    ICEBERG_TARGET_FILE_SIZE,
    MERGE_ON_READ,
    TARGET_FILE_SIZE,
    VECTOR_FRACTION,
    check_properties,
)
from lakeward.write.plan.partitioning import partitioning
from lakeward.write.plan.settings import delta_settings, iceberg_settings
from lakeward.write.plan.validate import check_constraints
from lakeward.write.tables.make import make

_RETRY_POLICY = {f"retry_{name}": key for name, key in retry.PROPERTIES.items()}
_POLICY = {
    "target_file_size": TARGET_FILE_SIZE,
    "compression": COMPRESSION,
    "checkpoint_interval": CHECKPOINT_INTERVAL,
    "append_only": "delta.appendOnly",
    "change_data_feed": "delta.enableChangeDataFeed",
    "merge_on_read": MERGE_ON_READ,
    "merge_on_read_fraction": VECTOR_FRACTION,
    **_RETRY_POLICY,
}
_ICEBERG_POLICY = {
    "target_file_size": ICEBERG_TARGET_FILE_SIZE,
    "compression": ICEBERG_COMPRESSION,
    "append_only": APPEND_ONLY,
    **_RETRY_POLICY,
}
_FORMATS = ("delta", iceberg.FORMAT)


def create(
    context: LakeContext,
    name: TableName,
    schema: Any,
    *,
    format: str,  # noqa: A002  the name users know
    partition_by: Sequence[str],
    properties: Mapping[str, str] | None,
    policy: Mapping[str, Any] | None,
    constraints: Mapping[str, str] | None,
    comment: str | None,
    guard: bool,
) -> Head:
    """Make an empty table: version 0, published unless the warehouse fails just then.

    Raises:
        InvalidInput: Something asked for makes no sense; nothing was made.
        AlreadyExists: The name is taken, or a table lies where this one would.
        StorageError: The warehouse cannot be written; nothing was made.
        OutcomeUnknown: The store stayed silent. Ask `lake.outcome` by the error's transaction id.
    """
    by = [partition_by] if isinstance(partition_by, str) else partition_by
    settings = arguments.mapping(properties, "properties")
    definition = define(
        schema,
        format,
        partition_by=arguments.texts(by, "partition_by"),
        properties={**settings, **_from_policy(arguments.mapping(policy, "policy"), format)},
        constraints=arguments.mapping(constraints, "constraints"),
        comment=arguments.optional_text(comment, "comment"),
        guard=arguments.flag(guard, "guard"),
    )

    return make(context, name, format, definition, guard=guard)


def drop(context: LakeContext, name: TableName) -> None:
    """Take a table out of the lake. Its files stay where they are.

    Raises:
        TableNotFound: There is no such table.
        Locked: A transaction holds it.
    """
    with context.database.write() as session:
        found = heads.get(session, name)
        head = heads.lock(session, found.table_id, name)
        check_locks(context, session, [(head, LockMode.WRITE)])
        # Later than its last version even by a clock that is behind, so that cuts agree.
        now = timestamp_after([head])
        head = audit.record(session, head, at_ms=now, actor=context.actor, action="DROP TABLE")
        heads.advance(session, head)
        heads.drop(session, head.table_id, now)
        if head.format == iceberg.FORMAT:
            iceberg.leave(context, session, head)


def define(
    schema: Any,
    format: str,  # noqa: A002  the name users know
    *,
    partition_by: Sequence[str],
    properties: Mapping[str, Any],
    constraints: Mapping[str, str],
    comment: str | None,
    guard: bool,
) -> Definition:
    """What holds for a new table.

    Raises:
        InvalidInput: Something asked for makes no sense, or not for this format.
        UnsupportedFeature: There are no tables of the format.
    """
    if format not in _FORMATS:
        what = f"Tables of format {format!r} cannot be made."
        raise UnsupportedFeature(what, hint="Use 'delta' or 'iceberg'.", format=format)
    columns = Schema.of(schema)
    parts = partitioning(columns, partition_by, format=format, guard=guard)
    checked = check_properties(properties)
    if format == iceberg.FORMAT:
        protocol = new_iceberg_protocol(checked)
        settings = iceberg_settings(checked)
        # Refuses what Iceberg has no type for.
        schema_json(columns, 0)
        check_installed()
        return Definition(
            schema=columns,
            partition_by=parts.partition_by,
            derived=parts.derived,
            properties=settings,
            constraints=check_constraints(constraints, columns),
            comment=comment,
            protocol=protocol,
            whole_files=True,
        )
    settings = delta_settings(checked)
    if guard:
        settings[ICT_PROPERTY] = "true"
    definition = Definition(
        schema=parts.schema,
        partition_by=parts.partition_by,
        properties=settings,
        constraints=check_constraints(constraints, parts.schema),
        comment=comment,
        derived=parts.derived,
    )
    protocol = new_protocol(definition, guard=guard)
    derived = {**parts.derived, **derived_of(parts.schema, protocol)}
    return replace(definition, protocol=protocol, derived=derived)


def _from_policy(policy: Mapping[str, Any], format: str) -> dict[str, Any]:  # noqa: A002
    known = _ICEBERG_POLICY if format == iceberg.FORMAT else _POLICY
    unknown = sorted(set(policy) - set(known))
    if unknown:
        what = f"{unknown[0]!r} is not a policy of {format} tables."
        raise InvalidInput(what, hint=f"Policies are {', '.join(known)}.")
    return {known[k]: v for k, v in policy.items()}
