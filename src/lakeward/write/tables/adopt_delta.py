"""An existing Delta table taken into the log, and guarded where its adopter asks for it."""

from __future__ import annotations

from dataclasses import replace

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists
from lakeward.formats.delta.generated import derived_of, without_marks
from lakeward.formats.delta.history import read_history
from lakeward.formats.delta.protocol import ICT, ICT_PROPERTY, guarded, is_guarded, writer_features
from lakeward.log import heads
from lakeward.log.database import Session
from lakeward.model.commit import CommitInfo, Head, new_transaction_id
from lakeward.model.definition import Definition
from lakeward.model.names import TableName
from lakeward.write.commit.new_table import register
from lakeward.write.commit.open_table import commit_open
from lakeward.write.commit.publish import checkpoint_if_due
from lakeward.write.commit.ratify import timestamp_after
from lakeward.write.commit.record import Draft
from lakeward.write.tables.adopted_history import insert_adopted


def adopt_delta(
    context: LakeContext, name: TableName, place: str, *, guard: bool, drift: str, take_over: bool
) -> Head:
    """Take an existing Delta table into the lake.

    Args:
        context: The lake's.
        name: What the lake shall call it.
        place: Its directory, as the log keeps it.
        guard: Keep other writers out from now on: one commit on the table says so.
        drift: On a table left open, `adopt` or `refuse` what others commit later.
        take_over: Take the table even if it is guarded, because the lake that guards it is gone.

    Raises:
        TableNotFound: There is no table.
        CorruptTable: Its log cannot be understood. Nothing was changed.
        AlreadyExists: The lake has it, or another lake guards it.
    """
    history = read_history(context.storage, place)
    current = history.definitions[-1][1]
    already = is_guarded(current.protocol)
    if already and not take_over:
        what = f"The table at {context.storage.uri(place)} is guarded by a lake."
        hint = "Work with it through that lake; if that lake is gone, adopt it with take_over."
        raise AlreadyExists(what, hint=hint, location=place)
    head = insert_adopted(context, name, place, history, guard=already, drift=drift)
    if guard and not already:
        head = _guard(context, head)
    return head


def _guard(context: LakeContext, head: Head) -> Head:
    """Commit the guard: arbitrated like any commit on an open table, so no foreign one is lost."""
    transaction_id = new_transaction_id()
    with context.database.write() as session:
        register(context, session, transaction_id)

    def build(session: Session, current: Head) -> Draft:
        timestamp = timestamp_after([current])
        before = context.definition(session, current)
        info = CommitInfo(
            transaction_id=transaction_id,
            operation="ADOPT TABLE",
            parameters={"guard": "true"},
            actor=context.actor,
            engine=context.engine,
        )
        heads.set_guarded(session, current.table_id, guarded=True)
        definition = _guarded(before, current.version + 1, timestamp)
        return Draft(timestamp, info, definition, redefines=True)

    member = commit_open(context, transaction_id, head, build)
    checkpoint_if_due(context, member)
    return replace(member.head, guarded=True)


def _guarded(before: Definition, version: int, timestamp_ms: int) -> Definition:
    properties = dict(before.properties)
    if ICT not in writer_features(before.protocol) or properties.get(ICT_PROPERTY) != "true":
        properties[ICT_PROPERTY] = "true"
        # Readers take the files' own times for what was committed before this.
        properties["delta.inCommitTimestampEnablementVersion"] = str(version)
        properties["delta.inCommitTimestampEnablementTimestamp"] = str(timestamp_ms)
    protocol = guarded(before.protocol)
    schema = without_marks(before.schema)
    return replace(
        before,
        schema=schema,
        properties=properties,
        protocol=protocol,
        derived=derived_of(schema, protocol),
    )
