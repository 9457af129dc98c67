"""Finds the table columns that the columns and the rows of a query depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.optimizer.scope import Scope

Ref: TypeAlias = tuple[str, str]
"""A table's full name and a column of it."""
ROWS_OF: Final = ""
"""In the place of a column: which rows the table has, whatever is in them, as `count(*)` reads."""


class Unknown(Exception):
    """Raised if the sources of a query cannot be determined."""


@dataclass(frozen=True)
class Answer:
    """What a query depends on.

    Attributes:
        outputs: The name of each column, and the columns that its values are computed from.
        rows: The columns that decide which rows there are.
    """

    outputs: tuple[tuple[str, frozenset[Ref]], ...]
    rows: frozenset[Ref]


class Tables:
    """The tables of a lake for the analysis of one statement."""

    def __init__(self, columns_of: Mapping[str, Sequence[str]], dialect: str) -> None:
        self.dialect = dialect
        self._columns = dict(columns_of)
        self._by_lower = {name.lower(): name for name in columns_of}

    def full_name(self, table: exp.Table) -> str:
        """A table's name as a statement has it, with its namespace."""
        written = ".".join(str(part.name) for part in table.parts)
        return self._by_lower.get(written.lower(), written)

    def known(self, table: exp.Table) -> str | None:
        """The lake's name of a table; None for common table expressions and unknown tables."""
        name = self.full_name(table)
        return name if name in self._columns else None

    def columns(self, table: exp.Table) -> Sequence[str]:
        """The columns of a table of the lake."""
        name = self.known(table)
        if name is None:
            raise Unknown
        return self._columns[name]

    def spelled(self, table: exp.Table, column: str) -> str:
        """A column as the table spells it."""
        return {c.lower(): c for c in self.columns(table)}[column.lower()]

    def outputs(self, source: exp.Expr) -> Sequence[str]:
        """The names of the columns of a table or a subquery."""
        from sqlglot import exp

        if isinstance(source, exp.Table):
            return self.columns(source)
        return [name for name, _ in analysed(source.unnest(), self).outputs]

    def column(self, name: str, column: str) -> Ref:
        """A column of a table, as the table spells it."""
        found = {c.lower(): c for c in self._columns[name]}.get(column.lower())
        if found is None:
            raise Unknown
        return name, found


def analysed(query: exp.Expr, tables: Tables) -> Answer:
    """What a query depends on.

    Raises:
        Unknown: It names tables or uses clauses that are not understood for certain.
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
    """Replace the tables of a query by names without namespaces; return those names and columns."""
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
        if name is None or extra - {"joins"}:
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
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return names, shape


class _Reading:
    """Reads the scopes of a query from the outside to the inside."""

    def __init__(self, names: Mapping[str, str], tables: Tables) -> None:
        self._names = names
        self._tables = tables
        self._known: dict[int, Answer] = {}
        self._open: set[int] = set()

    def answer(self, scope: Scope) -> Answer:
        """The columns that a scope depends on."""
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

        sides = [self.answer(side) for side in scope.set_operation_scopes]
        if len(sides) != 2 or len(sides[0].outputs) != len(sides[1].outputs):
            raise Unknown
        pairs = zip(sides[0].outputs, sides[1].outputs, strict=True)
        outputs = tuple((name, left | right) for (name, left), (_, right) in pairs)
        rows = sides[0].rows | sides[1].rows
        whole = isinstance(scope.expression, exp.Union) and not scope.expression.args["distinct"]
        cut = scope.expression.args.get("limit") or scope.expression.args.get("offset")
        if not whole or cut:
            rows = rows.union(*(values for _, values in outputs))
        return Answer(outputs, rows)

    def _select(self, scope: Scope, tree: exp.Select) -> Answer:
        from sqlglot import exp

        for part in ("laterals", "pivots", "match", "connect", "sample"):
            if tree.args.get(part):
                raise Unknown
        if scope.udtf_scopes:
            raise Unknown
        rows: set[Ref] = set()
        for _, source in scope.selected_sources.values():
            if isinstance(source, exp.Table):
                rows.add((self._names[source.name], ROWS_OF))
            else:
                rows |= self.answer(source).rows
        outputs = []
        for chosen in tree.selects:
            if chosen.is_star:
                raise Unknown
            outputs.append((chosen.alias_or_name, frozenset(self._refs(chosen, scope))))
        cut = tree.args.get("limit") or tree.args.get("offset")
        for key, part in tree.args.items():
            if key in ("expressions", "with_") or (key == "order" and not cut):
                continue
            for node in part if isinstance(part, list) else [part]:
                if isinstance(node, exp.Expr):
                    rows |= self._refs(node, scope)
        if tree.args.get("distinct"):
            rows = rows.union(*(values for _, values in outputs))
        return Answer(tuple(outputs), frozenset(rows))

    def _refs(self, node: exp.Expr, scope: Scope) -> set[Ref]:
        """All columns that an expression looks at, those of its subqueries too."""
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
        """The columns that an output depends on which ORDER BY or another clause names."""
        from sqlglot import exp

        chosen = scope.expression.selects if isinstance(scope.expression, exp.Select) else []
        same = [c for c in chosen if c.alias_or_name.lower() == column.name.lower()]
        if len(same) != 1 or any(one is column for one in same[0].walk()):
            raise Unknown
        return frozenset(self._refs(same[0], scope))


def _outside_of_queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression; of a query inside of it only the query itself."""
    from sqlglot import exp

    yield from node.walk(prune=lambda n: isinstance(n, exp.Query))
