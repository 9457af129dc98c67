"""Changes a table's schema so that it fits data with other columns, before the data is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.evolution.alterations import AddColumn, Alteration, SetNullable
from lakeward.model.evolution.merging import SchemaMode, merging, replacing
from lakeward.model.evolution.paths import split_path
from lakeward.model.generated import generated_ids
from lakeward.model.quoting import identifier
from lakeward.write.stage.evolutions import mode_of
from lakeward.write.transaction.executor import Executor, NothingDone
from lakeward.write.transaction.member import Member


def alter(executor: Executor, member: Member, asked: Alteration) -> None:
    """Alter a table's definition, and set the default in existing rows if requested."""
    if not isinstance(asked, AddColumn) or not asked.backfill:
        executor.alter(member, [asked])
        return
    assert asked.default is not None  # noqa: S101  the builder checked it
    executor.alter(member, [replace(asked, nullable=True, backfill=False)])
    (name,) = split_path(asked.path, member.change.definition.schema)
    executor.update(member, {name: asked.default}, f"{identifier(name)} IS NULL")
    if not asked.nullable:
        executor.alter(member, [SetNullable(asked.path, nullable=False)])


class fitted:  # noqa: N801  used as a function, and as quick as one
    """Alter a table, by `schema_mode` or its policy, to fit data that the block writes.

    `SchemaMode.OVERWRITE` is for data that replaces all rows. If the table was altered and the data
    is rejected, the alteration cannot be undone, so the transaction ends.
    """

    __slots__ = ("_changes",)

    def __init__(
        self, executor: Executor, member: Member, data: Any, mode: str | None, allowed: SchemaMode
    ) -> None:
        self._changes = fit_schema(executor, member, data, mode, allowed)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error, NothingDone) and self._changes:
            raise error.error from None


def fit_schema(
    executor: Executor, member: Member, data: Any, mode: str | None, allowed: SchemaMode
) -> list[Alteration]:
    """Alter a table to fit data, by `schema_mode` or its policy; return the alterations."""
    changes = _changes(executor, member, data, mode, allowed)
    if changes:
        executor.alter(member, changes)
    return changes


def _changes(
    executor: Executor, member: Member, data: Any, mode: str | None, allowed: SchemaMode
) -> list[Alteration]:
    asked = None if mode is None else arguments.choice(mode, SchemaMode, "schema_mode")
    chosen = mode_of(member.change.head, member.change.definition, asked, allowed)
    if chosen is None:
        return []
    if chosen is SchemaMode.OVERWRITE and allowed is not SchemaMode.OVERWRITE:
        what = "schema_mode='overwrite' replaces the schema, so all rows must be replaced."
        raise InvalidInput(what, hint="Use tx.overwrite without `where`, or schema_mode='merge'.")
    definition = member.change.definition
    schema = definition.schema
    try:
        given, typed = executor.columns_of(data, schema.by_name)
    except InvalidInput:
        if asked is None:
            # Only the policy requires it: data whose columns are not known in advance must fit.
            return []
        raise
    if chosen is SchemaMode.MERGE:
        return list(merging(schema, given, typed=typed))
    own = {*generated_ids(definition), *definition.identity}
    generated = frozenset(schema.by_id[i].name for i in own)
    return list(replacing(schema, given, generated))
