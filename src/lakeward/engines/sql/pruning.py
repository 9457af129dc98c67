"""Derives from a query which rows of each table it needs, so that the log can skip files.

Only conditions that hold for every relevant row are used: those of WHERE and of joins that refer to
a single table, and order and limit if nothing else decides. Conditions on a subquery, or on a WITH
entry that is used once, are passed to the tables in it. The engine runs the whole query over the
remaining files, so a part that cannot be analysed here costs time but changes no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lakeward.engines.sql.query import DIALECT
from lakeward.engines.sql.terms import COMPARISONS, bound, spelled
from lakeward.model.expressions.nodes import And, Expression
from lakeward.model.schema import Schema
from lakeward.model.sorting import SortKey

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.optimizer.scope import Scope

_NAME: Final = "__lakeward_"
_ONE_FOR_A_ROW: Final = frozenset(
    {"column", "identifier", "star", "alias", "paren", "literal", "null", "boolean", "neg"}
    | {"add", "sub", "mul", "cast", "datatype", "coalesce", "case", "if", "upper", "lower"}
    | {*COMPARISONS, "and", "or", "not", "is", "in", "between", "dpipe"}
)
"""Nodes of a SELECT list that compute one row from each row; other functions may be aggregates."""
_FALSE_FOR_NULLS: Final = frozenset(
    {*COMPARISONS, "and", "or", "paren", "in", "between", "like", "column", "identifier"}
    | {"literal", "cast", "datatype", "neg", "boolean"}
)
"""Nodes of conditions that are never true where a column is null."""


@dataclass(slots=True)
class Wanted:
    """What is known about the rows that a query needs from one table."""

    terms: list[Expression] = field(default_factory=list)
    limit: int | None = None  # this many rows are enough
    order: SortKey | None = None  # the first column of ORDER BY, if the order matters

    @property
    def where(self) -> Expression | None:
        """The condition that all needed rows satisfy; None if none is known."""
        if len(self.terms) < 2:
            return self.terms[0] if self.terms else None
        return And(tuple(self.terms))


def wanted(tree: Any, nodes: Sequence[Any], schemas: Sequence[Schema]) -> list[Wanted]:
    """Return what a query needs from each of its tables; `nodes` are the tables in its tree."""
    found = [Wanted() for _ in nodes]
    try:
        _look(tree, nodes, schemas, found)
    except Exception:  # noqa: BLE001  whatever the optimizer cannot do: all files are read
        return [Wanted() for _ in nodes]
    return found


def _look(
    tree: exp.Expr, nodes: Sequence[exp.Table], schemas: Sequence[Schema], found: list[Wanted]
) -> None:
    from sqlglot import exp
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.optimizer.scope import traverse_scope

    if _reads_by_place(tree):
        return
    marked = _marked(tree, nodes)
    columns: dict[str, object] = {}
    columns |= {f"{_NAME}{n}": {f.name: "unknown" for f in s} for n, s in enumerate(schemas)}
    qualified = qualify(
        marked,
        schema=columns,
        dialect=DIALECT,
        validate_qualify_columns=False,
        quote_identifiers=False,
    )
    scopes = list(traverse_scope(qualified))
    uses: dict[int, int] = {}
    for scope in scopes:
        for _, source in scope.selected_sources.values():
            uses[id(source)] = uses.get(id(source), 0) + 1
    recursive = any(w.args.get("recursive") for w in qualified.find_all(exp.With))
    passed: dict[int, list[exp.Expr]] = {}
    for scope in reversed(scopes):  # from the outermost inwards
        for alias, term in _terms(scope, passed.get(id(scope), [])):
            source = _selected(scope, alias)
            number = _number(source)
            if number is not None:
                condition = bound(term, schemas[number])
                if condition is not None:
                    found[number].terms.append(condition)
            elif source is not None and uses.get(id(source)) == 1 and not recursive:
                _pass_on(source, term, passed)
    _look_at_limit(scopes[-1], schemas, found)


def _reads_by_place(tree: exp.Expr) -> bool:
    """Return whether a query depends on rows that its conditions exclude, or renames columns.

    Such are samples, ASOF and POSITIONAL joins, PIVOT, tables with a list of new column names, and
    `* REPLACE` and `* RENAME`, to whose columns ORDER BY refers.
    """
    from sqlglot import exp

    if tree.find(exp.TableSample, exp.Pivot) is not None:
        return True
    if any(str(j.method or "").upper() not in ("", "NATURAL") for j in tree.find_all(exp.Join)):
        return True
    if any(s.args.get("replace") or s.args.get("rename") for s in tree.find_all(exp.Star)):
        return True
    return any(table.alias_column_names for table in tree.find_all(exp.Table))


def _marked(tree: exp.Expr, nodes: Sequence[exp.Table]) -> exp.Expr:
    """Return a copy of the tree in which each table of the lake has a unique name."""
    from sqlglot import exp

    for place, node in enumerate(nodes):
        node.meta["lakeward"] = place
    copy = tree.copy()
    for table in copy.find_all(exp.Table):
        n = table.meta.get("lakeward")
        if n is None:
            continue
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
        table.set("this", exp.to_identifier(f"{_NAME}{n}"))
        for part in ("db", "catalog", "version"):
            table.set(part, None)
    return copy


def _selected(scope: Scope, alias: str) -> Any:
    found: dict[str, tuple[Any, Any]] = dict(scope.selected_sources)
    return found[alias][1] if alias in found else None


def _number(source: Any) -> int | None:
    """Return the index of the lake table that a source is; None for other sources."""
    from sqlglot import exp

    if isinstance(source, exp.Table) and source.name.startswith(_NAME):
        return int(source.name[len(_NAME) :])
    return None


def _terms(scope: Scope, passed: list[exp.Expr]) -> Iterator[tuple[str, exp.Expr]]:
    """Yield the conditions, on one source each, that every relevant row of the source satisfies."""
    from sqlglot import exp

    select = scope.expression
    if not isinstance(select, exp.Select) or any(
        isinstance(s, exp.Expression) and s.args.get("joins")
        for _, s in scope.selected_sources.values()
    ):
        return
    joins = select.args.get("joins") or []
    seen = [] if select.args.get("from_") is None else [select.args["from_"].this.alias_or_name]
    lacking: set[str] = set()
    conditions: list[tuple[exp.Expr, set[str] | None]] = []
    for join in joins:
        name, side = join.alias_or_name, str(join.side or "").upper()
        kind, on = str(join.kind or "").upper(), join.args.get("on")
        if kind in ("SEMI", "ANTI") or join.args.get("using") or join.args.get("method"):
            on = None
        if side == "LEFT":
            lacking.add(name)
            allowed: set[str] | None = {name}
        elif side == "RIGHT":
            lacking.update(seen)
            allowed = set(seen)
        elif side == "FULL":
            lacking.update([*seen, name])
            allowed = set()
        else:
            allowed = None
        if on is not None:
            conditions.append((on, allowed))
        seen.append(name)
    where = select.args.get("where")
    if where is not None:
        conditions.append((where.this, None))
    conditions += [(term, None) for term in passed]
    for condition, allowed in conditions:
        for term in _conjuncts(condition):
            alias = _alias(term)
            if alias is None or (allowed is not None and alias not in allowed):
                continue
            # Rows that an outer join adds are null there.
            if alias in lacking and _may_hold_for_nulls(term):
                continue
            yield alias, term


def _conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    from sqlglot import exp

    waiting, found = [condition], []
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Paren):
            waiting.append(node.this)
        elif isinstance(node, exp.And):
            waiting += [node.expression, node.this]
        else:
            found.append(node)
    return found


def _alias(term: exp.Expr) -> str | None:
    """Return the only source to which a condition refers; None for several."""
    from sqlglot import exp

    if term.find(exp.Query, exp.Window, exp.AggFunc) is not None:
        return None
    names = {c.table for c in term.find_all(exp.Column)}
    return names.pop() if len(names) == 1 and "" not in names else None


def _may_hold_for_nulls(term: exp.Expr) -> bool:
    return any(node.key not in _FALSE_FOR_NULLS for node in term.walk())


def _pass_on(source: Any, term: exp.Expr, passed: dict[int, list[exp.Expr]]) -> None:
    """Pass a condition on a subquery to the query inside, on the columns of that query."""
    from sqlglot import exp

    inner = getattr(source, "expression", None)
    if isinstance(inner, exp.SetOperation):
        if _is_plain(inner) and not inner.args.get("by_name"):
            for part in source.union_scopes or ():
                # A UNION takes its column names from its first part.
                _pass_on_select(part, term, inner.named_selects, passed)
    elif isinstance(inner, exp.Select):
        _pass_on_select(source, term, inner.named_selects, passed)


def _pass_on_select(
    scope: Any, term: exp.Expr, names: Sequence[str], passed: dict[int, list[exp.Expr]]
) -> None:
    from sqlglot import exp

    select = scope.expression
    if not isinstance(select, exp.Select) or not _is_plain(select):
        return
    given = dict(zip(names, select.selects, strict=True))
    copy = exp.Paren(this=term.copy())
    for column in list(copy.find_all(exp.Column)):
        value = given.get(column.name)
        value = value.this if isinstance(value, exp.Alias) else value
        if not isinstance(value, exp.Column):
            return
        column.replace(value.copy())
    passed.setdefault(id(scope), []).append(copy.this)


def _is_plain(query: exp.Expr) -> bool:
    """Return whether a query passes rows of its sources through, without grouping or limits."""
    from sqlglot import exp

    parts = ("group", "having", "limit", "offset", "distinct", "qualify", "connect", "laterals")
    if any(query.args.get(part) for part in parts if part != "distinct" or query.key == "select"):
        return False
    return not isinstance(query, exp.Select) or all(
        s.find(exp.Window, exp.AggFunc, exp.Explode, exp.Unnest) is None for s in query.selects
    )


def _look_at_limit(scope: Scope, schemas: Sequence[Schema], found: list[Wanted]) -> None:
    """Record how many rows are enough, if a query returns the first rows of one table."""
    from sqlglot import exp

    select = scope.expression
    if not isinstance(select, exp.Select) or len(scope.selected_sources) != 1 or not scope.is_root:
        return
    allowed = {"kind", "expressions", "from_", "limit", "offset", "order"}
    if any(value for name, value in select.args.items() if name not in allowed):
        return
    number = _number(next(iter(scope.selected_sources.values()))[1])
    count, skipped = _whole(select.args.get("limit")), _whole(select.args.get("offset"))
    plain = all(node.key in _ONE_FOR_A_ROW for s in select.selects for node in s.walk())
    if number is None or count is None or skipped is None or not plain or scope.subquery_scopes:
        return
    if select.args.get("limit") is None:
        return
    order = select.args.get("order")
    if order is not None:
        first = order.expressions[0]
        schema = schemas[number]
        name = _column_of(first.this, select)
        field_ = None if name is None else schema.by_name.get(spelled(name, schema) or "")
        if field_ is None or str(field_.type) in ("float", "double"):
            return
        found[number].order = SortKey(field_, bool(first.args.get("desc")))
    found[number].limit = count + skipped


def _column_of(value: exp.Expr, select: exp.Select) -> str | None:
    """Return the table's column to which an ORDER BY expression refers; None if it is no column."""
    from sqlglot import exp

    if isinstance(value, exp.Column) and not value.table:
        for one in select.selects:
            if one.alias_or_name == value.name:
                value = one.this if isinstance(one, exp.Alias) else one
                break
    return value.name if isinstance(value, exp.Column) and value.table else None


def _whole(node: Any) -> int | None:
    """Return the number of LIMIT or OFFSET; 0 if absent, None if it is not a number."""
    if node is None:
        return 0
    options = node.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        return None
    text = str(node.expression) if node.expression is not None else ""
    return int(text) if text.isdecimal() else None
