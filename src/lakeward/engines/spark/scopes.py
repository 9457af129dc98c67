"""Which table each name in a statement means, by the scopes in which Spark looks names up.

A name of one part means the innermost WITH of that name that is visible where the name is used,
and a table otherwise. A WITH is visible in the query that it precedes, with all its parts, and in
the entries behind it in the same list; in its own query only if it is RECURSIVE. Aliases never
stand for tables in FROM. Before a column, `namespace.table` means a table of the innermost query
that reads it under its own name.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Prefix:
    """A qualified table name before a column."""

    parts: Sequence[exp.Expr]  # namespace and table, and perhaps the catalog before them
    table: exp.Table  # the table that it means


@dataclass(frozen=True, slots=True)
class _Query:
    """The tables that a query reads, and the query around it."""

    tables: Sequence[exp.Table]
    outer: _Query | None


@dataclass(frozen=True, slots=True)
class _Place:
    """A node, with the names of WITH that are visible there, and the query it belongs to."""

    node: exp.Expr
    names: frozenset[str]
    query: _Query | None


def tables(tree: exp.Expr, target: exp.Expr | None) -> Iterator[exp.Table]:
    """The tables that a statement names, its target among them; entries of WITH are not."""
    from sqlglot import exp

    for place in _walk(tree):
        node = place.node
        if not isinstance(node, exp.Table) or isinstance(node.parent, exp.JoinHint):
            continue
        if node is target or len(node.parts) > 1 or node.name.lower() not in place.names:
            yield node


def prefixes(tree: exp.Expr) -> Iterator[Prefix]:
    """The qualified names of tables before columns, with the tables that they mean."""
    from sqlglot import exp

    for place in _walk(tree):
        if not isinstance(place.node, exp.Column):
            continue
        parts = [p for p in place.node.parts if isinstance(p, exp.Identifier)]
        # A column or a star follows the name of the table.
        parts = parts if isinstance(place.node.this, exp.Star) else parts[:-1]
        found = _meant(parts, place.query)
        if found is not None and "start" in parts[0].meta:
            yield found


def _meant(parts: Sequence[exp.Expr], query: _Query | None) -> Prefix | None:
    while query is not None:
        # Spark tries the longest name first.
        for count in (3, 2):
            names = [p.name.lower() for p in parts[:count]]
            for table in query.tables if len(names) == count else ():
                if [p.name.lower() for p in table.parts][-count:] == names:
                    return Prefix(parts[:count], table)
        query = query.outer
    return None


def _walk(tree: exp.Expr) -> Generator[_Place]:
    """All nodes of a statement; not by recursion, for conditions may be long."""
    waiting = [_Place(tree, frozenset(), None)]
    while waiting:
        place = waiting.pop()
        yield place
        node, names, query = place.node, place.names, place.query
        read = _read(node)
        if read is not None:
            query = _Query(read, query)
        entries = node.args.get("with_")
        if entries is not None:
            is_recursive = bool(entries.args.get("recursive"))
            for entry in entries.expressions:
                name = frozenset({entry.alias.lower()})
                own = names | name if is_recursive else names
                waiting.append(_Place(entry.this, own, place.query))
                names |= name
        waiting += [
            _Place(child, names, query) for child in node.iter_expressions() if child is not entries
        ]


def _read(node: exp.Expr) -> list[exp.Table] | None:
    """The tables whose columns are known below a node by their qualified names, if it is a query.

    Tables with an alias are known by that alone.
    """
    from sqlglot import exp

    args = node.args
    if isinstance(node, exp.Select):
        from_, joins = args.get("from_"), args.get("joins") or ()
        waiting = [*([] if from_ is None else [from_.this]), *(j.this for j in joins)]
    elif isinstance(node, exp.Merge):
        waiting = [node.this, args.get("using")]
    elif isinstance(node, exp.Update | exp.Delete | exp.Insert):
        waiting = [node.this]
    else:
        return None
    found = []
    while waiting:
        source = waiting.pop()
        if isinstance(source, exp.Table):
            waiting += [j.this for j in source.args.get("joins") or ()]
        if isinstance(source, exp.Table | exp.Subquery | exp.Schema) and not source.alias:
            if isinstance(source, exp.Table):
                found.append(source)
            else:
                waiting.append(source.this)
    return found
