"""Runs OPTIMIZE of an Iceberg table by Iceberg's own procedure.

The procedure runs on the transaction's branch like any statement. Requests that it cannot fulfil
are rejected before it is called.
"""

from __future__ import annotations

from typing import Final

from lakeward.engines.spark.optimize import rewriting_call
from lakeward.engines.spark.statement import Statement
from lakeward.errors import InvalidExpression, UnsupportedFeature
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import (
    And,
    Column,
    Compare,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
)
from lakeward.model.expressions.render import render
from lakeward.model.expressions.where import parse
from lakeward.model.types import Primitive

_ORDERED: Final = frozenset(
    {"boolean", "int8", "int16", "int32", "int64", "float", "double"}
    | {"string", "binary", "date", "timestamp"}
)
"""Types that Iceberg supports in a Z-order."""
_IDENTITY: Final = "identity"


def check_optimize(definition: Definition, statement: Statement, table: str) -> None:
    """Raise `UnsupportedFeature` if Iceberg's procedure cannot execute an OPTIMIZE."""
    if statement.where is not None:
        _condition(definition, statement.where, table)
    partitions = {
        d.source
        for d in map(definition.derived.get, definition.partition_by)
        if d is not None and d.transform.name == _IDENTITY
    }
    for name in statement.zorder:
        field = definition.schema.by_name.get(name)
        if field is None:
            what = f"ZORDER BY {name}: table {table} has no such column."
            hint = f"Its columns are {', '.join(definition.schema.names)}."
            raise UnsupportedFeature(what, hint=hint, table=table, column=name)
        if field.id in partitions:
            what = f"ZORDER BY {name}: all rows of a partition of {table} have the same value."
            hint = "Order by other columns."
            raise UnsupportedFeature(what, hint=hint, table=table, column=name)
        if not isinstance(field.type, Primitive) or field.type.name not in _ORDERED:
            what = f"ZORDER BY {name}: Iceberg makes no Z-order of columns of type {field.type}."
            hint = f"It does of {', '.join(sorted(_ORDERED))}."
            raise UnsupportedFeature(what, hint=hint, table=table, column=name)


def optimize_sql(
    definition: Definition, statement: Statement, *, table: str, target: str, procedures: str
) -> str:
    """Return a checked OPTIMIZE as a call of Iceberg's procedure."""
    where = None
    if statement.where is not None:
        where = render(_condition(definition, statement.where, table))
    return rewriting_call(procedures, target, where=where, columns=statement.zorder)


def _condition(definition: Definition, text: str, table: str) -> Expression:
    """Parse a condition; raise `UnsupportedFeature` if Iceberg cannot choose files by it."""
    try:
        found = parse(text, definition.schema)
    except InvalidExpression as error:
        what = f"OPTIMIZE of {table} cannot choose files by {text}: {error.what}"
        raise UnsupportedFeature(what, hint=error.hint, table=table) from error
    if not _chooses_files(found):
        what = f"OPTIMIZE of {table} cannot choose files by {text}."
        hint = "Compare columns with values by =, <, >, IN and IS NULL, with AND, OR and NOT."
        raise UnsupportedFeature(what, hint=hint, table=table)
    return found


def _chooses_files(node: Expression) -> bool:
    """Return whether Iceberg can tell from a file's statistics that no row of it matches."""
    if isinstance(node, And | Or):
        return all(map(_chooses_files, node.terms))
    if isinstance(node, Not):
        return _chooses_files(node.operand)
    if isinstance(node, In | IsNull):
        return _is_column(node.operand)
    if isinstance(node, Compare):
        sides = (node.left, node.right)
        return any(map(_is_column, sides)) and any(isinstance(s, Literal) for s in sides)
    return False


def _is_column(node: Expression) -> bool:
    return isinstance(node, Column) and not node.path
