"""Statements of a transaction on Spark, spelled with the names that its tables have there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.engines.spark.quoting import identifier
from lakeward.engines.spark.statement import Kind, Qualifier, Statement
from lakeward.engines.spark.subquery import as_merge
from lakeward.errors import InvalidExpression, UnsupportedFeature
from lakeward.model.definition import Definition
from lakeward.model.expression import Expression
from lakeward.model.names import TableName
from lakeward.model.types import MapOf
from lakeward.model.where import parse
from lakeward.read.parts import Parts
from lakeward.write import iceberg
from lakeward.write.change import Operation
from lakeward.write.spark_names import table_of
from lakeward.write.spark_optimize import check_optimize, optimize_sql
from lakeward.write.spark_tables import SparkTables

_FLOATS: Final = ("float", "double")
_OPERATIONS: Final = {
    Kind.INSERT: "WRITE",
    Kind.OVERWRITE: "WRITE",
    Kind.UPDATE: "UPDATE",
    Kind.DELETE: "DELETE",
    Kind.MERGE: "MERGE",
    Kind.OPTIMIZE: "OPTIMIZE",
}


def found_tables(
    parts: Parts, tables: SparkTables, statement: Statement
) -> dict[int, TableName | None]:
    """The lake's table for each name of a statement, by where it stands; nothing is opened yet.

    Raises:
        TableNotFound: A name means nothing.
        UnsupportedFeature: The statement would go past the transaction.
    """
    found = {
        ref.start: table_of(parts, tables.workspace, ref, tables.knows)
        for ref in statement.tables
        # What it makes is not there yet.
        if not (ref.writes and statement.kind in (Kind.VIEW, Kind.CREATE))
    }
    for table in found.values() if statement.kind is Kind.OPTIMIZE else ():
        if table is not None:
            tables.look(table)
            if tables.format(table) == iceberg.FORMAT:
                check_optimize(tables.definition(table), statement, str(table))
    target = None if statement.target is None else found.get(statement.target.start)
    if target is not None and _is_merged(tables, statement, target):
        _check_comparable(tables.definition(target), str(target))
    return found


def spelled(
    tables: SparkTables, statement: Statement, found: Mapping[int, TableName | None]
) -> str:
    """A statement with the names that its tables have in Spark, each pinned or on its branch."""
    names: dict[int, str] = {}
    merged: str | None = None
    target = None if statement.target is None else found.get(statement.target.start)
    for ref in statement.tables:
        table = found.get(ref.start)
        if table is not None and not ref.writes:
            names[ref.start] = tables.to_read(table)
    if target is not None and statement.target is not None:
        operation = Operation(_OPERATIONS[statement.kind], _told(statement))
        again = any(t == target for s, t in found.items() if s != statement.target.start)
        reads = statement.target.reads or again
        names[statement.target.start] = tables.to_write(target, operation, reads=reads)
        if _is_merged(tables, statement, target):
            merged = names[statement.target.start]
            names[statement.target.start] = tables.to_read(target)
        if statement.kind is Kind.OPTIMIZE and tables.format(target) == iceberg.FORMAT:
            return optimize_sql(
                tables.definition(target),
                statement,
                table=str(target),
                target=names[statement.target.start],
                procedures=tables.workspace.procedures,
            )
        if statement.kind not in (Kind.INSERT, Kind.OPTIMIZE):
            tables.scope(target, _scope(tables, statement, target))

    def qualifier(ref: Qualifier) -> str | None:
        table = found.get(ref.table)
        if table is None:
            return None
        if tables.format(table) == iceberg.FORMAT:
            return identifier(*ref.parts[-2:])
        written = statement.target is not None and ref.table == statement.target.start
        written = written and merged is None
        database = tables.workspace.database(table.namespace, written=written)
        return identifier(database, table.name)

    text = statement.rewritten(lambda ref: names.get(ref.start), qualifier)
    if merged is None or target is None:
        return text
    schema = tables.definition(target).schema
    floats = [f.name for f in schema if str(f.type) in _FLOATS]
    return as_merge(text, target=merged, columns=schema.names, floats=floats)


def _is_merged(tables: SparkTables, statement: Statement, target: TableName) -> bool:
    """Whether an UPDATE or DELETE runs as a MERGE, because Delta takes no subquery in it."""
    if not statement.asks:
        return False
    tables.look(target)
    return tables.format(target) != iceberg.FORMAT


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
