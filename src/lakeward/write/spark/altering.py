"""Alters a table's definition in a transaction on Spark.

The rules are the same as without Spark (`lakeward.write.alter`), but Spark checks the existing
rows. The table's branch then gets the new definition, so every later statement sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.spark.merging import read_evolving, source_of, with_columns
from lakeward.engines.spark.statement import Statement
from lakeward.errors import LakewardError, UnsupportedFeature
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import (
    AddColumn,
    AddConstraint,
    Alteration,
    SetNullable,
)
from lakeward.model.evolution.apply import is_needed
from lakeward.model.evolution.merging import merging
from lakeward.model.evolution.paths import find
from lakeward.model.names import TableName
from lakeward.model.quoting import identifier
from lakeward.model.types import Field, ListOf, MapOf
from lakeward.write.alter.alter import Altered, altered, lacks_values
from lakeward.write.spark.tables import SparkTables
from lakeward.write.spark.validate import refuse, refuse_missing
from lakeward.write.stage.evolutions import check_merging
from lakeward.write.transaction.executor import NothingDone

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame


def planned(
    context: LakeContext,
    tables: SparkTables,
    name: TableName,
    asked: Sequence[Alteration],
    if_needed: Collection[int] = (),
) -> list[tuple[Alteration, Altered]]:
    """Return the results of successive alterations of a table, without applying them.

    `if_needed` has the positions of alterations with IF EXISTS or IF NOT EXISTS, which are left out
    if they would change nothing after the ones before.
    """
    tables.look(name)
    change = tables.change(name)

    def look(asked: Alteration, after: Definition) -> None:
        rows = tables.workspace.frame(f"SELECT * FROM {tables.live(name).sql}")
        _check_rows(asked, after, str(name), rows)

    out = []
    for position, one in enumerate(asked):
        if position in if_needed and not is_needed(change.definition, one):
            continue
        found = altered(context, change, one, look, lambda: tables.has_new(name))
        if found.numbers:
            what = f"The rows of {name} get ids, which a transaction on Spark cannot give them."
            hint = "Alter the table in a transaction without spark=."
            raise UnsupportedFeature(what, hint=hint, table=str(name))
        out.append((one, found))
        change = replace(change, definition=found.definition)
    return out


def evolved_merge(
    tables: SparkTables,
    alter: Callable[[TableName, Sequence[Alteration]], None],
    statement: Statement,
    table: TableName | None,
    text: str,
    args: Any,
) -> tuple[str, bool]:
    """Return a MERGE WITH SCHEMA EVOLUTION as a plain MERGE, after altering its target.

    Return also whether the target was altered. `text` is the statement with the names that its
    tables have in Spark. If an alteration is rejected, or the policy of the target allows none, it
    raises `NothingDone`, and the transaction is unchanged.
    """
    if table is None:
        message = "a statement that changes rows has a table of the lake for its target"
        raise AssertionError(message)
    forget = tables.savepoint()
    takes = read_evolving(statement.text)
    rows = tables.workspace.frame(f"SELECT * FROM {source_of(text)}", args)
    try:
        given = [
            column
            for column in tables.workspace.columns(rows)
            if takes.takes_all or column.name.lower() in takes.assigned
        ]
        before = tables.definition(table)
        check_merging(tables.change(table).head, before)
        alter(table, list(merging(before.schema, pa.schema(given), typed=True)))
    except NothingDone:
        forget()
        raise
    except LakewardError as error:
        forget()
        raise NothingDone(error) from error
    is_altered = tables.definition(table) != before
    return with_columns(text, takes.source, rows.columns), is_altered


def _check_rows(asked: Alteration, after: Definition, table: str, rows: DataFrame) -> None:
    """Raise if existing rows do not satisfy an alteration."""
    match asked:
        case AddColumn(path=path):
            if rows.limit(1).collect():
                raise lacks_values(path, table)
        case SetNullable(path=path):
            place = find(after.schema, path)
            refuse_missing(rows, path, _present([*place.parents, place.field]), table)
        case AddConstraint(name=name, expression=text):
            refuse(rows, {name.lower(): text}, after, table)
        case _:
            pass


def _present(chain: Sequence[Field]) -> str:
    """Return a Spark condition: the last field is not null wherever its parents are not."""
    return _missing_nowhere(identifier(chain[0].name), chain[0], chain[1:], 0)


def _missing_nowhere(value: str, field: Field, rest: Sequence[Field], depth: int) -> str:
    if not rest:
        return f"{value} IS NOT NULL"
    part, name = rest[0], f"v{depth}"
    inner: Callable[[str], str] = lambda v: _missing_nowhere(v, part, rest[1:], depth + 1)  # noqa: E731
    match field.type:
        case ListOf():
            known = f"forall({value}, {name} -> {inner(name)})"
        case MapOf(key) if part == key:
            known = f"forall(map_keys({value}), {name} -> {inner(name)})"
        case MapOf():
            known = f"forall(map_values({value}), {name} -> {inner(name)})"
        case _:
            known = inner(f"{value}.{identifier(part.name)}")
    return f"({value} IS NULL OR {known})"
