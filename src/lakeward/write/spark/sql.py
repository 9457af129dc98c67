"""Rewrites the statements of a transaction with the names that its tables have in Spark.

A name that is written means a table of the lake; for one that is read, a temporary view of the
session hides a table of the same name, as in Spark. Tables of other catalogs and files may be read,
except for files of the lake's tables, and only tables of the lake may be written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakeward.context import LakeContext
from lakeward.engines.spark.statement import Kind, Statement, TableRef
from lakeward.engines.spark.subquery import as_merge
from lakeward.engines.spark.workspace import Workspace
from lakeward.errors import InvalidExpression, InvalidName, TableNotFound, UnsupportedFeature
from lakeward.log import heads
from lakeward.log.catalog import CATALOG, NAMESPACE
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.where import parse
from lakeward.model.names import TableName
from lakeward.model.quoting import identifier
from lakeward.model.types import MapOf
from lakeward.storage.paths import overlaps
from lakeward.write.plan.change import Operation
from lakeward.write.spark.sources import Found, Reader, Use
from lakeward.write.spark.tables import SparkTables

_FILES: Final = frozenset(
    {"avro", "binaryfile", "csv", "delta", "iceberg", "json", "orc", "parquet", "text", "xml"}
)
_SESSION: Final = "spark_catalog"
"""Spark's own catalog, whose names may be paths too."""
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
    """Return the lake's table of each name in a statement, by position; open no table yet."""
    found = {
        ref.start: _table_of(context, tables.workspace, ref, tables.knows)
        for ref in statement.tables
        # What the statement creates does not exist yet.
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


def rewritten(tables: SparkTables, reader: Reader, statement: Statement, found: Found) -> str:
    """Return a statement with the names that its tables have in Spark: pinned, or on a branch."""
    target = None if statement.target is None else found.get(statement.target.start)
    sources = reader.sources(statement, found, _use(tables, statement, target))
    if target is None or statement.target is None:
        return sources.text(None)
    operation = Operation(_OPERATIONS[statement.kind], _parameters(statement))
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
    """Return whether an UPDATE or DELETE runs as a MERGE: if the format supports no subqueries."""
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
    """Return a condition for the rows that a statement may replace or remove; None for all."""
    if statement.where is None:
        return None
    try:
        return parse(statement.where, tables.definition(table).schema)
    except InvalidExpression:
        # It refers to other tables, or uses functions of Spark.
        return None


def _parameters(statement: Statement) -> dict[str, str]:
    if statement.kind is Kind.INSERT:
        return {"mode": "Append"}
    if statement.kind is Kind.OVERWRITE:
        return {"mode": "Overwrite"}
    given = {} if statement.where is None else {"predicate": statement.where}
    return given | ({"zOrderBy": ",".join(statement.zorder)} if statement.zorder else {})


def _table_of(
    context: LakeContext, workspace: Workspace, ref: TableRef, knows: Callable[[TableName], bool]
) -> TableName | None:
    """Return the lake's table of a name; None for other relations that may be read.

    Raises an error if the name means nothing that may be read or written.
    """
    path = _path(ref)
    if path is not None:
        _check_path(context, ref, path)
        return None
    if not ref.writes and len(ref.parts) == 1 and workspace.is_view(ref.parts[0]):
        return None
    name = _name(ref)
    if name is not None and knows(name):
        if ref.travels and ref.writes:
            what = f"An older version of {name} cannot be written."
            raise UnsupportedFeature(what, hint="Restore it: tx.restore, or table.restore.")
        return name
    if ref.writes:
        if name is None:
            what = f"{ref} is not a table of the lake."
            raise UnsupportedFeature(what, hint="A transaction writes tables of the lake only.")
        raise _missing(context, name)
    if workspace.session.catalog.tableExists(identifier(*ref.parts)):
        return None
    if name is None:
        what = f"There is no table {ref}."
        raise TableNotFound(what, table=str(ref))
    raise _missing(context, name)


def named_table(tables: SparkTables, parts: tuple[str, ...]) -> TableName:
    """Return the lake's table of a name in a statement about whole tables."""
    ref = TableRef(parts, 0, 0, reads=False, writes=True)
    found = _table_of(tables.context, tables.workspace, ref, tables.knows)
    if found is None:
        message = "what is written is a table of the lake"
        raise AssertionError(message)
    return found


def _missing(context: LakeContext, name: TableName) -> TableNotFound:
    with context.database.read() as session:
        return heads.missing(session, name)


def created_name(ref: TableRef) -> TableName:
    """Return the name of a table that a statement creates."""
    name = _name(ref)
    if name is None:
        what = f"{ref} is not a name for a table of the lake."
        raise UnsupportedFeature(what, hint="Use `name` or `namespace.name`.")
    return name


def _name(ref: TableRef) -> TableName | None:
    parts = ref.parts
    if len(parts) == 3 and parts[0] == CATALOG:
        parts = parts[1:] if parts[1] != NAMESPACE else parts[2:]
    if len(parts) > 2:
        return None
    try:
        return TableName.parse(".".join(parts))
    except InvalidName:
        return None


def _path(ref: TableRef) -> str | None:
    """Return the path of files that a name means; None if it is the name of a table."""
    parts = ref.parts[1:] if ref.parts[0].lower() == _SESSION else ref.parts
    if len(parts) != 2 or parts[0].lower() not in _FILES:
        return None
    return parts[1] if "/" in parts[1] or ":" in parts[1] else None


def _check_path(context: LakeContext, ref: TableRef, path: str) -> None:
    if ref.writes:
        what = f"{ref} is a path; what is written there is seen at once."
        raise UnsupportedFeature(what, hint="Write a table of the lake, by its name.")
    with context.database.read() as session:
        known = heads.all_heads(session)
    for head in known:
        if overlaps(path, context.storage.uri(head.location)):
            what = f"{ref} reaches files of table {head.name}, past the transaction."
            raise UnsupportedFeature(what, hint=f"Write {head.name} instead of the path.")
