"""Finds the table to which each name in a statement refers, by Spark's scopes of names.

A name of one part refers to the innermost WITH entry of that name that is visible where the name is
used, otherwise to a table. A WITH entry is visible in the query that follows the WITH, with all its
parts, and in later entries of the same WITH; in its own query only if it is RECURSIVE. An alias
never refers to a table in FROM. Before a column, `namespace.table` refers to a table of the
innermost query that reads it without an alias.
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
    """The tables that a query reads, and the enclosing query."""

    tables: Sequence[exp.Table]
    outer: _Query | None


@dataclass(frozen=True, slots=True)
class _Place:
    """A node, the names of WITH entries that are visible there, and the query that contains it."""

    node: exp.Expr
    names: frozenset[str]
    query: _Query | None


def tables(tree: exp.Expr, target: exp.Expr | None) -> Iterator[exp.Table]:
    """Yield the tables of a statement, its target included, without references to WITH entries."""
    from sqlglot import exp

    for place in _walk(tree):
        node = place.node
        if not isinstance(node, exp.Table) or isinstance(node.parent, exp.JoinHint):
            continue
        if node is target or len(node.parts) > 1 or node.name.lower() not in place.names:
            yield node


def prefixes(tree: exp.Expr) -> Iterator[Prefix]:
    """Yield the qualified names of tables before columns, with the tables they refer to."""
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
            names = [p.name for p in parts[:count]]
            found = [t for t in query.tables if _names(t, count) == _lower(names)]
            if found and len(names) == count:
                # Of tables whose names differ only by case, the one that is written so.
                same = [t for t in found if [p.name for p in t.parts][-count:] == names]
                return Prefix(parts[:count], (same or found)[0])
        query = query.outer
    return None


def _names(table: exp.Table, count: int) -> list[str]:
    """Return the last parts of a table's name, in lower case."""
    return _lower([p.name for p in table.parts][-count:])


def _lower(names: Sequence[str]) -> list[str]:
    return [n.lower() for n in names]


def _walk(tree: exp.Expr) -> Generator[_Place]:
    """Yield all nodes of a statement; without recursion, because conditions may be long."""
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
    """Return the tables whose qualified names may be used below a query; None if it is no query.

    Tables with an alias may be referred to only by the alias.
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
