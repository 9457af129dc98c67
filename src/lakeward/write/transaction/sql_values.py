"""Converts names, literals and rows between SQL statements and operations of a transaction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.decimals import cast
from lakeward.errors import InvalidInput, SchemaMismatch, UnsupportedFeature
from lakeward.model import parameters
from lakeward.model.definition import Definition
from lakeward.model.generated import generated_ids
from lakeward.model.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

DIALECT: Final = "databricks"
"""The SQL dialect of conditions and values for the transaction's own operations."""
_PLAIN_NUMBER: Final = re.compile(r"\d+\.?\d*|\.\d+")
_MOST_DIGITS: Final = 38


def literal(value: Any) -> exp.Expr:
    """Return a value as an SQL literal."""
    import sqlglot

    return sqlglot.parse_one(parameters.spark_literal(value), dialect=DIALECT)


def check_plain(kind: pa.DataType) -> None:
    """Raise `UnsupportedFeature` for the type of values that no literal can have."""
    if pa.types.is_nested(kind):
        what = f"A subquery cannot have values of type {kind} here."
        raise UnsupportedFeature(what, hint="Write a MERGE, or use Spark.")


def parts_of(node: exp.Expr) -> tuple[str, ...]:
    """Return the parts of a table's name; raise `InvalidInput` if it is not a name."""
    from sqlglot import exp

    if not isinstance(node, exp.Table):
        what = f"{node.sql()} is not the name of a table."
        raise InvalidInput(what)
    return tuple(str(p.name) for p in node.parts)


def assigned(column: exp.Expr, target: Sequence[str]) -> str:
    """Return the name of a column that a statement assigns.

    Args:
        column: The column, with its qualifier.
        target: The possible qualifiers of the changed table's columns, in lower case.
    """
    from sqlglot import exp

    parts = [p.name for p in column.parts] if isinstance(column, exp.Column) else []
    if not parts or (parts[1:] and ".".join(parts[:-1]).lower() not in target):
        what = f"{column.sql()} is not a column of the changed table."
        hint = "Whole columns are assigned; give a struct a new value as a whole."
        raise UnsupportedFeature(what, hint=hint)
    return str(parts[-1])


def check_assigned(merge: exp.Expr, target: Sequence[str]) -> None:
    """Raise `UnsupportedFeature` if a MERGE assigns anything but columns of its target."""
    from sqlglot import exp

    for when in merge.args["whens"].expressions:
        then = when.args["then"]
        listed = then.this.expressions if isinstance(then.this, exp.Tuple) else ()
        pairs = then.expressions if isinstance(then, exp.Update) else ()
        for column in (*listed, *(e.this for e in pairs if isinstance(e, exp.EQ))):
            assigned(column, target)


def check_distinct(names: Sequence[str]) -> None:
    """Raise `InvalidInput` if a statement gives a column two values."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            what = f"The statement gives column {name!r} two values."
            raise InvalidInput(what, hint="Name each column once; case makes no difference.")
        seen.add(name.lower())


def spelled(name: str, schema: Schema) -> str:
    """Return a column's name in the table's spelling, if the table has it; else unchanged."""
    return next((n for n in schema.names if n.lower() == name.lower()), name)


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema without metadata in which all columns are nullable."""
    return pa.schema([pa.field(f.name, f.type) for f in schema])


def writable(rows: pa.Table) -> pa.Table:
    """Return the rows of a query in types that tables can have.

    DataFusion counts in unsigned integers, and has times such as now() in nanoseconds; digits below
    a microsecond are cut.
    """
    for n, column in enumerate(rows.columns):
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        elif column.type.equals(pa.uint64()):
            limit = pc.max(column).as_py()
            column = column if (limit or 0) >= 2**63 else column.cast(pa.int64())
        if not column.type.equals(rows.schema.field(n).type):
            field = rows.schema.field(n)
            rows = rows.set_column(n, field.with_type(column.type), column)
    return rows


def inserted_names(definition: Definition, count: int) -> list[str]:
    """Return the columns that rows of `count` values are for, in an INSERT without a column list.

    The values are for all columns, or for all but generated and identity columns.
    """
    schema = definition.schema
    if count == len(schema.names):
        return list(schema.names)
    filled = {*generated_ids(definition), *definition.identity}
    return [f.name for f in schema if f.id not in filled]


def cast_decimals(
    source: exp.Expr, definition: Definition, names: Sequence[str] | None, *, by_name: bool
) -> None:
    """Write numbers that an INSERT has for decimal columns as casts of text, in place.

    DataFusion reads a number with a point, or of more digits than an int64 has, as a double.

    Raises:
        InvalidInput: A number has more digits than a decimal can have.
    """
    from sqlglot import exp

    decimals = {
        f.name.lower(): (f.type.precision - f.type.scale, f.type.scale)
        for f in definition.schema.to_arrow()
        if pa.types.is_decimal(f.type)
    }
    found: dict[str, list[exp.Expr]] = {}
    for row in _value_rows(source) if decimals else ():
        own = [value.alias_or_name for value in row] if by_name else names
        for name, value in zip(own or inserted_names(definition, len(row)), row, strict=False):
            number = _plain_number(value)
            if name.lower() in decimals and number is not None:
                found.setdefault(name.lower(), []).append(number)
    for name, numbers in found.items():
        # Of one type: DataFusion does not convert decimals of a UNION to a common one.
        parts = [number.name.partition(".") for number in numbers]
        whole = max(decimals[name][0], *(len(w.lstrip("0")) for w, _, _ in parts))
        scale = max(decimals[name][1], *(len(f) for _, _, f in parts))
        if whole + scale > _MOST_DIGITS:
            longest = max((number.name for number in numbers), key=len)
            what = f"The number {longest} does not fit the type of column {name}."
            raise InvalidInput(what, hint=f"A decimal has at most {_MOST_DIGITS} digits.")
        to = exp.DataType.build(f"DECIMAL({whole + scale}, {scale})")
        for number in numbers:
            number.replace(exp.Cast(this=exp.Literal.string(number.name), to=to.copy()))


def _value_rows(source: exp.Expr) -> Iterator[list[exp.Expr]]:
    """Return the values of each row of VALUES, and those that a query selects, also by `*`."""
    from sqlglot import exp

    match source:
        case exp.Select(expressions=[exp.Star(args=changed)]) if not any(changed.values()):
            if source.args.get("from_") is not None and not source.args.get("joins"):
                yield from _value_rows(source.args["from_"].this)
        case exp.Values():
            yield from (list(row.expressions) or [row] for row in source.expressions)
        case exp.SetOperation():
            yield from _value_rows(source.left)
            yield from _value_rows(source.right)
        case exp.Subquery():
            yield from _value_rows(source.this)
        case exp.Select():
            yield list(source.expressions)


def _plain_number(value: exp.Expr) -> exp.Expr | None:
    """Return the number that a value is, without its sign; None if it is anything else."""
    from sqlglot import exp

    number = value.unalias().unnest()
    number = number.this.unnest() if isinstance(number, exp.Neg) else number
    is_plain = isinstance(number, exp.Literal) and _PLAIN_NUMBER.fullmatch(number.name)
    return number if is_plain and not number.is_string else None


def fitted(
    rows: pa.Table, definition: Definition, names: Sequence[str] | None, table: str
) -> pa.Table:
    """Return rows whose values, given by position, are those of the columns `names`.

    None means all columns. A column that is not named becomes null if it is nullable, has no
    default and is not generated; otherwise it is left out, and computed when the rows are written.
    """
    schema = definition.schema
    wanted = list(inserted_names(definition, rows.num_columns) if names is None else names)
    if rows.num_columns != len(wanted):
        what = f"{table} takes {len(wanted)} values a row here, and {rows.num_columns} are given."
        hint = f"They are for {', '.join(wanted)}."
        raise SchemaMismatch(what, hint=hint, table=table)
    spelled = {n.lower(): n for n in schema.names}
    unknown = [n for n in wanted if n.lower() not in spelled]
    if unknown:
        what = f"Table {table} has no column {unknown[0]!r}."
        raise InvalidInput(what, hint=f"It has {', '.join(schema.names)}.", table=table)
    types = {f.name: f.type for f in schema.to_arrow()}
    columns = {}
    for name, column in zip(wanted, rows.columns, strict=True):
        own = spelled[name.lower()]
        try:
            columns[own] = column if column.type.equals(types[own]) else cast(column, types[own])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            columns[own] = column  # an error is raised when it is written
    computed = generated_ids(definition)
    for field in schema:
        absent = field.name not in columns and field.id not in computed
        if absent and field.nullable and field.default is None:
            columns[field.name] = pa.nulls(rows.num_rows, types[field.name])
    return pa.table(columns)
