"""Finds the table columns that the columns and the rows of a query depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.optimizer.scope import Scope

Ref: TypeAlias = tuple[str, str]
"""A table's full name and the name of one of its columns."""
_Outputs: TypeAlias = tuple[tuple[str, frozenset[Ref]], ...]
ROWS_OF: Final = ""
"""Instead of a column: only which rows the table has is used, not their values (`count(*)`)."""


class Unknown(Exception):
    """Raised if the sources of a query cannot be determined."""


@dataclass(frozen=True)
class Answer:
    """The columns that a query depends on.

    Attributes:
        outputs: The name of each output column, and the columns its values are computed from.
        rows: The columns that decide which rows the result has.
        order: The columns that decide about the order of the rows.
    """

    outputs: _Outputs
    rows: frozenset[Ref]
    order: frozenset[Ref] = frozenset()


class Tables:
    """The tables of a lake, for the analysis of one statement."""

    def __init__(self, columns_of: Mapping[str, Sequence[str]], dialect: str) -> None:
        self.dialect = dialect
        self._columns = dict(columns_of)
        self._by_lower = {name.lower(): name for name in columns_of}

    def full_name(self, table: exp.Table) -> str:
        """Return the lake's full name of a table; for unknown ones the name in the statement."""
        written = ".".join(str(part.name) for part in table.parts)
        return self._by_lower.get(written.lower(), written)

    def known(self, table: exp.Table) -> str | None:
        """Return the full name of a table in the lake; None for others, such as a CTE."""
        name = self.full_name(table)
        return name if name in self._columns else None

    def columns(self, table: exp.Table) -> Sequence[str]:
        """Return the columns of a table of the lake; raise `Unknown` for other tables."""
        name = self.known(table)
        if name is None:
            raise Unknown
        return self._columns[name]

    def spelled(self, table: exp.Table, column: str) -> str:
        """Return the name of a column in the case that the table uses."""
        return {c.lower(): c for c in self.columns(table)}[column.lower()]

    def outputs(self, source: exp.Expr) -> Sequence[str]:
        """Return the names of the columns of a table or a subquery."""
        from sqlglot import exp

        if isinstance(source, exp.Table):
            return self.columns(source)
        return [name for name, _ in analysed(source.unnest(), self).outputs]

    def column(self, name: str, column: str) -> Ref:
        """Return a column of a table in the table's case; raise `Unknown` if it is missing."""
        found = {c.lower(): c for c in self._columns[name]}.get(column.lower())
        if found is None:
            raise Unknown
        return name, found


def analysed(query: exp.Expr, tables: Tables) -> Answer:
    """Return what a query depends on.

    Raises:
        Unknown: The query refers to unknown tables, or has clauses that cannot be analysed.
    """
    from sqlglot import exp
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.optimizer.scope import build_scope

    tree = query.copy()
    flat, shape = _flat(tree, tables)
    wrapped = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    clear = qualify(
        wrapped,
        schema=shape,
        dialect=tables.dialect,
        quote_identifiers=False,
        identify=False,
    )
    root = build_scope(clear)
    if root is None:
        raise Unknown
    return _Reading(flat, tables).answer(root)


def _flat(tree: exp.Expr, tables: Tables) -> tuple[dict[str, str], dict[str, object]]:
    """Replace the tables of a query by names without namespaces.

    Return the lake's name of each new name, and the columns of each new name.
    """
    from sqlglot import exp

    made = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    names: dict[str, str] = {}
    shape: dict[str, object] = {}
    for column in tree.find_all(exp.Column):
        if column.args.get("db") is not None:
            column.set("db", None)
            column.set("catalog", None)
    for number, table in enumerate(list(tree.find_all(exp.Table))):
        if len(table.parts) == 1 and table.name.lower() in made:
            continue
        name = tables.known(table)
        extra = {k for k, v in table.args.items() if v and k not in ("this", "db", "alias")}
        # The columns of a table that is read at a version are those of that version already.
        if name is None or extra - {"joins", "version"}:
            raise Unknown
        columns = tables.columns(table)
        if len({c.lower() for c in columns}) != len(columns):
            raise Unknown
        own = f"t{number}"
        names[own] = name
        shape[own] = dict.fromkeys((c.lower() for c in columns), "string")
        alias = table.alias or table.name
        table.set("this", exp.to_identifier(own))
        table.set("db", None)
        table.set("version", None)
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return names, shape


class _Reading:
    """Analyses the scopes of a query from the outermost to the innermost."""

    def __init__(self, names: Mapping[str, str], tables: Tables) -> None:
        self._names = names
        self._tables = tables
        self._known: dict[int, Answer] = {}
        self._open: set[int] = set()

    def answer(self, scope: Scope) -> Answer:
        """Return what a scope depends on; raise `Unknown` for a scope that depends on itself."""
        key = id(scope)
        if key not in self._known:
            if key in self._open:
                raise Unknown
            self._open.add(key)
            self._known[key] = self._look(scope)
        return self._known[key]

    def _look(self, scope: Scope) -> Answer:
        from sqlglot import exp

        if isinstance(scope.expression, exp.SetOperation):
            return self._set_operation(scope)
        if isinstance(scope.expression, exp.Subquery):
            raise Unknown
        if not isinstance(scope.expression, exp.Select):
            raise Unknown
        return self._select(scope, scope.expression)

    def _set_operation(self, scope: Scope) -> Answer:
        from sqlglot import exp

        tree = scope.expression
        sides = [self.answer(side) for side in scope.set_operation_scopes]
        if len(sides) != 2 or any(tree.args.get(part) for part in ("on", "side", "kind")):
            raise Unknown
        outputs = _paired(*(side.outputs for side in sides), by_name=bool(tree.args.get("by_name")))
        rows = sides[0].rows | sides[1].rows
        order = sides[0].order | sides[1].order
        whole = isinstance(tree, exp.Union) and not tree.args["distinct"]
        cut = tree.args.get("limit") or tree.args.get("offset")
        if not whole or cut:
            rows = rows.union(*(values for _, values in outputs))
        if tree.args.get("order"):
            order = order.union(*(values for _, values in outputs))
        return Answer(outputs, rows | order if cut else rows, order)

    def _select(self, scope: Scope, tree: exp.Select) -> Answer:
        from sqlglot import exp

        for part in ("laterals", "pivots", "match", "connect", "sample"):
            if tree.args.get(part):
                raise Unknown
        if scope.udtf_scopes:
            raise Unknown
        rows, order = set[Ref](), set[Ref]()
        for source in _sources(scope, tree):
            if isinstance(source, exp.Table):
                rows.add((self._names[source.name], ROWS_OF))
            else:
                rows |= self.answer(source).rows
                order |= self.answer(source).order
        outputs = []
        for chosen in tree.selects:
            if chosen.is_star:
                raise Unknown
            outputs.append((chosen.alias_or_name, frozenset(self._refs(chosen, scope))))
        for key, part in tree.args.items():
            if key in ("expressions", "with_"):
                continue
            for node in part if isinstance(part, list) else [part]:
                if isinstance(node, exp.Expr):
                    (order if key == "order" else rows).update(self._refs(node, scope))
        distinct, group = tree.args.get("distinct"), tree.args.get("group")
        if distinct:
            rows = rows.union(*(values for _, values in outputs))
        if group is not None and group.args.get("all"):
            pairs = zip(tree.selects, outputs, strict=True)
            rows = rows.union(*(own for one, (_, own) in pairs if not one.find(exp.AggFunc)))
        if tree.args.get("limit") or tree.args.get("offset") or (distinct and distinct.args["on"]):
            rows |= order
        return Answer(tuple(outputs), frozenset(rows), frozenset(order))

    def _refs(self, node: exp.Expr, scope: Scope) -> set[Ref]:
        """Return all columns that an expression reads, those of its subqueries too."""
        from sqlglot import exp

        inner = {id(s.expression): s for s in scope.subquery_scopes}
        found: set[Ref] = set()
        for one in _outside_of_queries(node):
            if isinstance(one, exp.Query):
                sub = inner.get(id(one)) or inner.get(id(one.unnest()))
                if sub is not None:
                    answer = self.answer(sub)
                    found |= answer.rows.union(*(values for _, values in answer.outputs))
            elif isinstance(one, exp.Column):
                found |= self._column(one, scope)
        return found

    def _column(self, column: exp.Column, scope: Scope) -> frozenset[Ref]:
        from sqlglot import exp

        if not column.table:
            return self._output(column, scope)
        at: Scope | None = scope
        while at is not None and column.table not in at.sources:
            at = at.parent
        if at is None:
            raise Unknown
        source: Any = at.sources[column.table]
        if isinstance(source, exp.Table):
            return frozenset({self._tables.column(self._names[source.name], column.name)})
        for name, values in self.answer(source).outputs:
            if name.lower() == column.name.lower():
                return values
        raise Unknown

    def _output(self, column: exp.Column, scope: Scope) -> frozenset[Ref]:
        """Return the columns of an output that ORDER BY or another clause refers to by its name."""
        from sqlglot import exp

        chosen = scope.expression.selects if isinstance(scope.expression, exp.Select) else []
        same = [c for c in chosen if c.alias_or_name.lower() == column.name.lower()]
        if len(same) != 1 or any(one is column for one in same[0].walk()):
            raise Unknown
        return frozenset(self._refs(same[0], scope))


def _sources(scope: Scope, tree: exp.Select) -> Iterator[Any]:
    """Yield the tables and scopes of FROM and of all joins, those of semi joins included."""
    joined = {join.alias_or_name for join in tree.args.get("joins") or ()}
    for name, source in scope.sources.items():
        if name in joined or name in scope.selected_sources:
            yield source


def _paired(left: _Outputs, right: _Outputs, *, by_name: bool) -> _Outputs:
    """Return the outputs of a set operation: by name, or by position with the left one's names."""
    if by_name:
        names = {name.lower(): name for name, _ in (*right, *left)}
        ordered = dict.fromkeys(name.lower() for name, _ in (*left, *right))
        values = {
            key: frozenset[Ref]().union(*(v for n, v in (*left, *right) if n.lower() == key))
            for key in ordered
        }
        return tuple((names[key], found) for key, found in values.items())
    if len(left) != len(right):
        raise Unknown
    pairs = zip(left, right, strict=True)
    return tuple((name, own | other) for (name, own), (_, other) in pairs)


def _outside_of_queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression; of a nested query only its root."""
    from sqlglot import exp

    yield from node.walk(prune=lambda n: isinstance(n, exp.Query))
