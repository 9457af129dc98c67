"""A table as a Polars LazyFrame that passes filters and columns down to the log.

Polars passes the filter of a query to its source. The filter's serialized form is parsed here, as
far as possible, so that the log skips files; Polars itself filters the rows.
"""

from __future__ import annotations

import base64
import io
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lakeward.errors import MissingExtra
from lakeward.model.expressions.nodes import (
    And,
    Column,
    Compare,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
)
from lakeward.model.schema import Schema
from lakeward.model.types import Field, Primitive
from lakeward.model.values import Value

Read: TypeAlias = Callable[[Expression | None, Sequence[str], int | None], pa.RecordBatchReader]
"""Returns the rows of the files that may have rows for a condition, with some columns.

At least the first ones, if only so many are wanted.
"""
_TOGETHER: Final = 65_536
"""So many rows of small files become one frame."""
_COMPARISONS: Final[dict[str, Comparison]] = {
    "Eq": "=",
    "NotEq": "!=",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
}
_FLIPPED: Final[dict[Comparison, Comparison]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS: Final = ("int8", "int16", "int32", "int64")
_UNITS: Final = {"Microseconds": 1, "Milliseconds": 1000}


def lazy_frame(schema: Schema, read: Read, label: str) -> Any:
    """Return a LazyFrame of a table's rows."""
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as error:
        what = "A lazy frame needs Polars."
        raise MissingExtra(what, hint="Run: pip install polars.") from error

    names = schema.names

    def rows(
        with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Any]:
        del batch_size
        used = set() if predicate is None else set(predicate.meta.root_names())
        wanted = names if with_columns is None else with_columns
        needed = [n for n in names if n in used or n in set(wanted)] or names[:1]
        # With both, Polars filters the first rows: those that do not match count, too.
        condition = understood(predicate, schema) if n_rows is None else None
        with read(condition, needed, n_rows) as reader:
            for table in _joined(reader, n_rows):
                frame: Any = pl.from_arrow(table)
                if predicate is not None:
                    frame = frame.filter(predicate)
                if with_columns is not None:
                    frame = frame.select(with_columns)
                yield frame

    empty: Any = pl.from_arrow(schema.to_arrow().empty_table())
    return register_io_source(rows, schema=empty.schema, is_pure=True, explain_name=label)


def _joined(reader: pa.RecordBatchReader, most: int | None) -> Iterator[pa.Table]:
    """Yield the rows, or the first ones, in tables that are not small, each of which takes time."""
    batches: list[pa.RecordBatch] = []
    held, left = 0, most
    for batch in reader:
        batches.append(batch.slice(0, left))
        held += batches[-1].num_rows
        left = None if left is None else left - batches[-1].num_rows
        if held >= _TOGETHER or left == 0:
            yield pa.Table.from_batches(batches)
            batches, held = [], 0
        if left == 0:
            return
    if batches:
        yield pa.Table.from_batches(batches)


def understood(predicate: Any, schema: Schema) -> Expression | None:
    """Return a condition that a Polars filter implies; None if none is known."""
    if predicate is None:
        return None
    try:
        with warnings.catch_warnings():
            # The serialized form may change between versions; an unknown form skips no files.
            warnings.simplefilter("ignore")
            tree = json.loads(predicate.meta.serialize(format="json"))
        return _condition(tree, schema, exact=False)
    except Exception:  # noqa: BLE001  whatever another version of Polars writes
        return None


def _condition(node: Any, schema: Schema, *, exact: bool) -> Expression | None:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            terms = [_condition(n, schema, exact=exact) for n in (left, right)]
            known = tuple(t for t in terms if t is not None)
            if len(known) == 2:
                return And(known)
            return known[0] if known and not exact else None
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            terms = [_condition(n, schema, exact=exact) for n in (left, right)]
            return None if None in terms else Or(tuple(t for t in terms if t is not None))
        case {"BinaryExpr": {"left": left, "op": op, "right": right}} if op in _COMPARISONS:
            return _comparison(_COMPARISONS[op], left, right, schema)
        case {"Function": {"input": [inner], "function": {"Boolean": "Not"}}}:
            found = _condition(inner, schema, exact=True)
            return None if found is None else Not(found)
        case {"Function": {"input": [{"Column": name}], "function": {"Boolean": "IsNull"}}}:
            return IsNull(Column(schema.by_name[name]))
        case {"Function": {"input": [{"Column": name}], "function": {"Boolean": "IsNotNull"}}}:
            return Not(IsNull(Column(schema.by_name[name])))
        case {
            "Function": {
                "input": [{"Column": name}, {"Literal": {"Scalar": {"List": data}}}],
                "function": {"Boolean": {"IsIn": {"nulls_equal": False}}},
            }
        }:
            return _member(schema.by_name[name], data)
    return None


def _comparison(op: Comparison, left: Any, right: Any, schema: Schema) -> Expression | None:
    if "Literal" in left:
        left, right, op = right, left, _FLIPPED.get(op, op)
    if "Column" not in left or "Literal" not in right:
        return None
    field = schema.by_name[left["Column"]]
    value = _value(right["Literal"], field)
    return None if value is None else Compare(op, Column(field), Literal(value, field.type))


def _member(field: Field, data: list[int]) -> Expression | None:
    table = pa.ipc.open_stream(io.BytesIO(bytes(data))).read_all()
    column = table.column(0).combine_chunks()
    values = (column.flatten() if pa.types.is_nested(column.type) else column).to_pylist()
    kind = str(field.type)
    plain = kind == "string" or kind in _INTEGERS
    wanted = str if kind == "string" else int
    if not plain or not values or not all(type(v) is wanted for v in values):
        return None
    return In(Column(field), tuple(Literal(v, field.type) for v in values))


def _value(literal: Any, field: Field) -> Value:
    """Return the value of a literal; None if it does not have the type of the column."""
    name = field.type.name if isinstance(field.type, Primitive) else ""
    for wrapper in ("Dyn", "Scalar"):
        literal = literal.get(wrapper, literal) if isinstance(literal, dict) else literal
    match literal:
        case {"Int": int() as value} if name in _INTEGERS:
            return value
        case {"Int": int() as value} | {"Float": int() | float() as value} if name == "double":
            return float(value)
        case {"Float64": int() | float() as value} if name == "double":
            return float(value)
        case {"Boolean": bool() as value} if name == "boolean":
            return value
        case {"Str": str() as value} | {"String": str() as value} if name == "string":
            return value
        case {"Binary": list() as value} if name == "binary":
            return base64.b64encode(bytes(value)).decode()
        case {"Date": int() as value} if name == "date":
            return value
        case {"Datetime": [int() as value, str() as unit, zone]}:
            same = (zone is None) == (name == "timestamp_ntz")
            if name in ("timestamp", "timestamp_ntz") and same and unit in _UNITS:
                return value * _UNITS[unit]
        case dict():
            for kind in ("Int8", "Int16", "Int32", "Int64"):
                if kind in literal and name in _INTEGERS:
                    return int(literal[kind])
    return None
