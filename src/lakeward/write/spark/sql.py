"""Statements of a transaction on Spark, spelled with the names that its tables have there."""

from __future__ import annotations

from typing import Final

from lakeward.context import LakeContext
from lakeward.engines.spark.statement import Kind, Statement
from lakeward.engines.spark.subquery import as_merge
from lakeward.errors import InvalidExpression, UnsupportedFeature
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.where import parse
from lakeward.model.names import TableName
from lakeward.model.types import MapOf
from lakeward.write.plan.change import Operation
from lakeward.write.spark.names import table_of
from lakeward.write.spark.sources import Found, Reader, Use
from lakeward.write.spark.tables import SparkTables

_FLOATS: Final = ("float", "double")
_OPERATIONS: Final = {
    Kind.INSERT: "WRITE",
    Kind.OVERWRITE: "WRITE",
    Kind.UPDATE: "UPDATE",
    Kind.DELETE: "DELETE",
    Kind.MERGE: "MERGE",
    Kind.OPTIMIZE: "OPTIMIZE",
}


def found_tables(context: LakeContext, tables: SparkTables, statement: Statement) -> Found:
    """The lake's table for each name of a statement, by where it stands; nothing is opened yet."""
    found = {
        ref.start: table_of(context, tables.workspace, ref, tables.knows)
        for ref in statement.tables
        # What it makes is not there yet.
        if not (ref.writes and statement.kind in (Kind.VIEW, Kind.CREATE))
    }
    for table in found.values() if statement.kind is Kind.OPTIMIZE else ():
        if table is not None:
            tables.look(table)
            definition = tables.definition(table)
            tables.format(table).check_optimize(definition, statement, str(table))
    target = None if statement.target is None else found.get(statement.target.start)
    if target is not None and _is_merged(tables, statement, target):
        _check_comparable(tables.definition(target), str(target))
    return found


def spelled(tables: SparkTables, reader: Reader, statement: Statement, found: Found) -> str:
    """A statement with the names that its tables have in Spark, each pinned or on its branch."""
    target = None if statement.target is None else found.get(statement.target.start)
    sources = reader.sources(statement, found, _use(tables, statement, target))
    if target is None or statement.target is None:
        return sources.text(None)
    operation = Operation(_OPERATIONS[statement.kind], _told(statement))
    again = any(t == target for s, t in found.items() if s != statement.target.start)
    name = tables.to_write(target, operation, reads=statement.target.reads or again)
    if statement.kind is Kind.OPTIMIZE:
        other = tables.format(target).optimize(tables.definition(target), statement, target)
        if other is not None:
            return other
    if statement.kind not in (Kind.INSERT, Kind.OPTIMIZE):
        tables.scope(target, _scope(tables, statement, target))
    if _is_merged(tables, statement, target):
        schema = tables.definition(target).schema
        floats = [f.name for f in schema if str(f.type) in _FLOATS]
        text = sources.text(tables.live(target))
        return as_merge(text, target=name, columns=schema.names, floats=floats)
    return sources.text(tables.format(target).to_write(target))


def _use(tables: SparkTables, statement: Statement, target: TableName | None) -> Use:
    if statement.kind in (Kind.QUERY, Kind.CREATE):
        return Use.FRAME
    if target is None:
        return Use.NOW
    tables.join(target)
    return Use.NOW if tables.format(target).takes_vectors else Use.NOW_RESOLVED


def _is_merged(tables: SparkTables, statement: Statement, target: TableName) -> bool:
    """Whether an UPDATE or DELETE runs as a MERGE, because the format takes no subquery in it."""
    if not statement.asks:
        return False
    tables.look(target)
    return not tables.format(target).takes_subqueries


def _check_comparable(definition: Definition, table: str) -> None:
    for field in definition.schema.walk():
        if isinstance(field.type, MapOf):
            what = f"An UPDATE or DELETE of {table} with a subquery cannot compare its column"
            what += f" {field.name}, a map."
            raise UnsupportedFeature(what, hint="Write a MERGE.", table=table, column=field.name)


def _scope(tables: SparkTables, statement: Statement, table: TableName) -> Expression | None:
    """Which rows a statement may replace or remove, as far as that can be told; None for all."""
    if statement.where is None:
        return None
    try:
        return parse(statement.where, tables.definition(table).schema)
    except InvalidExpression:
        # It names other tables, or what only Spark knows.
        return None


def _told(statement: Statement) -> dict[str, str]:
    if statement.kind is Kind.INSERT:
        return {"mode": "Append"}
    if statement.kind is Kind.OVERWRITE:
        return {"mode": "Overwrite"}
    told = {} if statement.where is None else {"predicate": statement.where}
    return told | ({"zOrderBy": ",".join(statement.zorder)} if statement.zorder else {})
