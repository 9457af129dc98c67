"""Results of SHOW and DESCRIBE for one table, with Spark's column names and wording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

import pyarrow as pa

from lakeward.errors import InvalidInput
from lakeward.model.commands import ShowNamespaces, ShowTable, ShowTables
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.evolution.paths import find
from lakeward.model.expressions.nodes import Literal
from lakeward.model.expressions.render import render
from lakeward.model.names import TableName
from lakeward.model.quoting import identifier, literal
from lakeward.model.types import Field, ListOf, MapOf, Primitive, Struct, Type

_NAMES: Final = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "timestamp_ms": "timestamp",
    "timestamp_ms_ntz": "timestamp_ntz",
}
_DESCRIBED: Final = pa.schema([(n, pa.string()) for n in ("col_name", "data_type", "comment")])
_Row: TypeAlias = tuple[str, str, str | None]


def shown(asked: ShowTable, head: Head, definition: Definition, place: str) -> pa.Table:
    """Return the result of a statement about a table that is located at `place`."""
    match asked.what:
        case "columns":
            return pa.table({"col_name": pa.array(definition.schema.names, pa.string())})
        case "properties":
            return _properties(definition, asked.part, str(head.name))
        case "create":
            return pa.table({"createtab_stmt": [creation(head, definition)]})
    if asked.part is not None:
        return _column(definition, asked.part)
    rows = list(_columns(definition))
    if asked.what == "extended":
        rows += _details(head, definition, place)
    return pa.Table.from_pylist(
        [dict(zip(_DESCRIBED.names, r, strict=True)) for r in rows], _DESCRIBED
    )


def listed(asked: ShowTables, names: Sequence[TableName]) -> pa.Table:
    """Return the result of SHOW TABLES: those of `names` that match its namespace and pattern."""
    space = asked.namespace
    found = [
        n
        for n in sorted(names, key=str)
        if (space is None or n.namespace == ("" if space == "default" else space))
        and _matches(n.name, asked.pattern)
    ]
    return pa.table(
        {
            "namespace": pa.array([n.namespace for n in found], pa.string()),
            "tableName": pa.array([n.name for n in found], pa.string()),
            "isTemporary": pa.array([False] * len(found), pa.bool_()),
        }
    )


def namespaces(asked: ShowNamespaces, names: Sequence[TableName]) -> pa.Table:
    """Return the result of SHOW NAMESPACES: the namespaces of `names` that match its pattern."""
    every = sorted({n.namespace or "default" for n in names})
    found = [space for space in every if _matches(space, asked.pattern)]
    return pa.table({"namespace": pa.array(found, pa.string())})


def _matches(name: str, pattern: str | None) -> bool:
    """Return whether a name matches one of the patterns of a LIKE, which `|` separates."""
    patterns = (pattern or "*").lower().split("|")
    return any(fnmatchcase(name.lower(), p.strip()) for p in patterns)


def sql_type(kind: Type, spelled: Callable[[str], str] = str) -> str:
    """Return a type in Spark SQL syntax; `spelled` sets the case of keywords: `str.upper`."""
    match kind:
        case Struct(fields):
            parts = (f"{identifier_if_needed(f.name)}: {sql_type(f.type, spelled)}" for f in fields)
            return f"{spelled('struct')}<{', '.join(parts)}>"
        case ListOf(element):
            return f"{spelled('array')}<{sql_type(element.type, spelled)}>"
        case MapOf(key, value):
            pair = f"{sql_type(key.type, spelled)}, {sql_type(value.type, spelled)}"
            return f"{spelled('map')}<{pair}>"
        case Primitive(name):
            return spelled(_NAMES.get(name, name))
        case _:
            return spelled(str(kind))


def creation(head: Head, definition: Definition) -> str:
    """Return the CREATE TABLE statement of a table."""
    columns = ",\n  ".join(_declared(field, definition) for field in definition.schema)
    out = [f"CREATE TABLE {head.name} (\n  {columns})", f"USING {head.format}"]
    if definition.partition_by:
        out.append(f"PARTITIONED BY ({', '.join(definition.partitioning)})")
    if definition.comment is not None:
        out.append(f"COMMENT {literal(definition.comment)}")
    if definition.properties:
        pairs = (f"{literal(k)} = {literal(v)}" for k, v in sorted(definition.properties.items()))
        out.append("TBLPROPERTIES (\n  " + ",\n  ".join(pairs) + ")")
    return "\n".join(out)


def identifier_if_needed(name: str) -> str:
    """Return a name, in backticks if it needs them."""
    plain = name.replace("_", "a").isalnum() and name.isascii() and not name[0].isdigit()
    return name if plain else identifier(name)


def _declared(field: Field, definition: Definition) -> str:
    out = f"{identifier_if_needed(field.name)} {sql_type(field.type, str.upper)}"
    if not field.nullable:
        out += " NOT NULL"
    if field.id in definition.computed:
        out += f" GENERATED ALWAYS AS ({definition.computed[field.id]})"
    if field.id in definition.identity:
        out += f" {str(definition.identity[field.id]).upper()}"
    if field.default is not None:
        out += f" DEFAULT {render(Literal(field.default, field.type))}"
    return out if field.comment is None else f"{out} COMMENT {literal(field.comment)}"


def _properties(definition: Definition, wanted: str | None, table: str) -> pa.Table:
    known = dict(sorted(definition.properties.items()))
    if wanted is not None:
        missing = f"Table {table} does not have property: {wanted}"
        known = {wanted: known.get(wanted, missing)}
    return pa.table(
        {"key": pa.array(list(known), pa.string()), "value": pa.array(known.values(), pa.string())}
    )


def _columns(definition: Definition) -> Iterator[_Row]:
    for field in definition.schema:
        yield field.name, sql_type(field.type), field.comment
    if definition.partition_by:
        yield "# Partitioning", "", ""
        for number, term in enumerate(definition.partitioning):
            yield f"Part {number}", term, ""


def _details(head: Head, definition: Definition, place: str) -> Iterator[_Row]:
    yield "", "", ""
    yield "# Detailed Table Information", "", ""
    yield "Name", str(head.name), ""
    yield "Provider", head.format, ""
    yield "Location", place, ""
    yield "Version", str(head.version), ""
    if definition.comment is not None:
        yield "Comment", definition.comment, ""
    pairs = ",".join(f"{k}={v}" for k, v in sorted(definition.properties.items()))
    yield "Table Properties", f"[{pairs}]", ""
    required = [f.name for f in definition.schema if not f.nullable]
    if required:
        yield "Required Columns", ", ".join(required), ""
    for name, text in definition.constraints.items():
        yield f"Constraint {name}", text, ""


def _column(definition: Definition, path: str) -> pa.Table:
    place = find(definition.schema, path)
    if place.parents:
        what = f"DESCRIBE supports only top-level columns, and {path} is nested."
        raise InvalidInput(what, hint=f"Describe {place.column.name}.", column=path)
    field = place.field
    rows = {"col_name": field.name, "data_type": sql_type(field.type), "comment": field.comment}
    return pa.table(
        {
            "info_name": pa.array(list(rows), pa.string()),
            "info_value": pa.array(list(rows.values()), pa.string()),
        }
    )
