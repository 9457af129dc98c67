"""Turns the expressions of a statement into text for the transaction's operations.

Values take the places of parameters and of subqueries, which are run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.model.expressions.where import FilledText, check_length
from lakeward.write.transaction.sql_values import DIALECT, check_plain, literal

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

_MOST: Final = 10_000
"""The most distinct values of a subquery in IN."""

RunQuery = Callable[["exp.Expr"], "pa.Table"]
"""Returns the rows of a query."""


def expression_text(
    node: exp.Expr, known: Mapping[str, str], values: Mapping[str, Any], query: RunQuery
) -> str:
    """Return an expression as text, with values for its parameters and subqueries.

    Args:
        node: The expression.
        known: Column qualifiers, and what replaces each of them; nothing if empty.
        values: The values of parameters by name.
        query: Runs a subquery.
    """
    from sqlglot import exp

    holder = exp.Paren(this=node.copy())
    whole = [q for q in holder.find_all(exp.Query) if q.find_ancestor(exp.Query) is None]
    places = list(holder.find_all(exp.Placeholder))
    if whole or places:
        # A list among the parameters has a place for each of its values, such as ":p0, ".
        besides = sum(len(place.name) + 3 for place in places)
        check_length(node.sql(dialect=DIALECT), besides=besides)
    for subquery in whole:
        _replace(subquery, known, query)
    _fill(list(holder.find_all(exp.Placeholder)), values)
    for column in list(holder.find_all(exp.Column)):
        before = ".".join(p.name for p in column.parts[:-1]).lower()
        if before in known:
            new = known[before]
            column.replace(exp.column(column.this.copy(), table=new or None, quoted=True))
    text = str(holder.this.sql(dialect=DIALECT))
    return FilledText(text) if whole or places else text


def _fill(places: Sequence[exp.Expr], values: Mapping[str, Any]) -> None:
    """Put values in the places of parameters; those of a list are replaced at once."""
    made = {id(place): literal(values[place.name]) for place in places}
    for parent, key in {(id(p.parent), p.arg_key): (p.parent, p.arg_key) for p in places}.values():
        if parent is None or key is None:
            continue
        given = parent.args[key]
        if isinstance(given, list):
            parent.set(key, [made.get(id(one), one) for one in given])
        else:
            parent.set(key, made[id(given)])


def _replace(query: exp.Expr, known: Mapping[str, str], run: RunQuery) -> None:
    """Run a subquery and replace it in its expression by its values."""
    from sqlglot import exp

    outer = {c.table.lower() for c in query.find_all(exp.Column)} & set(known)
    own = {t.alias_or_name.lower() for t in query.find_all(exp.Table)}
    if outer - own - {""}:
        what = "A subquery that refers to the changed row is not supported here."
        raise UnsupportedFeature(what, hint="Write a MERGE, or use Spark.")
    rows = run(query.this if isinstance(query, exp.Subquery) else query)
    parent = query.parent
    if isinstance(parent, exp.Exists):
        parent.replace(exp.Boolean(this=rows.num_rows > 0))
        return
    if rows.num_columns != 1:
        what = f"A subquery must have one column here, and this one has {rows.num_columns}."
        raise InvalidInput(what)
    check_plain(rows.schema.field(0).type)
    values = rows.column(0).to_pylist()
    if isinstance(parent, exp.In) and parent.args.get("query") is query:
        distinct = list(dict.fromkeys(values))
        if len(distinct) > _MOST:
            what = f"The subquery has {len(distinct):,} values; at most {_MOST:,} are compared."
            raise UnsupportedFeature(what, hint="Write a MERGE.")
        if not distinct:
            parent.replace(exp.Boolean(this=False))
            return
        parent.set("query", None)
        parent.set("expressions", [literal(v) for v in distinct])
        return
    if len(values) > 1:
        what = f"A subquery must have one row here, and this one has {len(values)}."
        raise InvalidInput(what)
    query.replace(literal(values[0] if values else None))
