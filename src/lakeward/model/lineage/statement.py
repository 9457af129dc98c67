"""Finds the source columns of each column that an SQL statement writes.

A column of the target depends on a source column in one of three ways: its value is computed from
the source column; the source column decides which rows exist (conditions, joins, groups, DISTINCT,
LIMIT with an order); or it decides which existing rows get a new value. What cannot be resolved
reliably raises `Unknown`; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakeward.model.lineage.origin import Origin
from lakeward.model.lineage.query import ROWS_OF, Answer, Ref, Tables, Unknown, analysed
from lakeward.model.quietly import quiet_parser

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True)
class StatementLineage:
    """What a statement reads and writes.

    Attributes:
        target: The table that the statement writes, by its name in the statement.
        tables: The tables that the statement reads.
        columns: For each column of the target that is written, the columns that its value is
            computed from and that decide about its rows; None if they cannot be determined.
        views: The views that the statement reads.
    """

    target: str
    tables: frozenset[str]
    columns: dict[str, Depends] | None
    views: frozenset[str] = frozenset()


@dataclass
class Depends:
    """What one column depends on: pairs of a table and a column, or of a table and `ROWS_OF`.

    Attributes:
        values: The columns from which its values are computed.
        rows: The columns that decide which rows exist.
        conditions: The columns that decide which existing rows get new values.
    """

    values: set[Ref] = field(default_factory=set)
    rows: set[Ref] = field(default_factory=set)
    conditions: set[Ref] = field(default_factory=set)

    @property
    def every(self) -> set[Ref]:
        """All columns on which the column depends."""
        return self.values | self.rows | self.conditions


def statement_lineage(
    text: str,
    dialect: str,
    columns_of: Mapping[str, Sequence[str]],
    views: Mapping[str, Origin] | None = None,
) -> StatementLineage | None:
    """Return the lineage of INSERT, UPDATE, DELETE, MERGE or CREATE TABLE AS; None for others.

    Args:
        text: The statement.
        dialect: The dialect of the statement, by sqlglot's name.
        columns_of: The columns of each table that it may refer to, by the table's full name.
        views: The origins of views that it may refer to; the result has their sources instead.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        with quiet_parser():
            tree = sqlglot.parse_one(text, dialect=dialect)
    except SqlglotError:
        return None
    if not isinstance(tree, exp.Insert | exp.Update | exp.Delete | exp.Merge | exp.Create):
        return None
    target = _target(tree)
    if target is None:
        return None
    known = {name: list(origin.columns or ()) for name, origin in (views or {}).items()}
    tables = Tables({**columns_of, **known}, dialect)
    name = tables.full_name(target)
    rest = [t for t in tree.find_all(exp.Table) if t is not target]
    sources = frozenset(n for t in rest if (n := tables.known(t)) is not None)
    if isinstance(tree, exp.Update | exp.Delete):
        sources |= {name} if tables.known(target) else set()
    try:
        columns = _columns(tree, target, tables)
    except (Unknown, SqlglotError, KeyError):
        columns = None
    found = StatementLineage(name, sources, columns)
    return _without_views(found, views) if views else found


def analysed_origin(origin: Origin, columns_of: Mapping[str, Sequence[str]]) -> Origin:
    """Return an origin with the columns that its query depends on, if they can be determined.

    Args:
        origin: The origin; one without a query is returned unchanged.
        columns_of: The columns of each table that the query may refer to.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    if origin.query is None:
        return origin
    text, dialect = origin.query
    try:
        found = analysed(sqlglot.parse_one(text, dialect=dialect), Tables(columns_of, dialect))
    except (Unknown, SqlglotError, KeyError):
        return replace(origin, query=None)
    return replace(origin, columns=dict(found.outputs), rows=found.rows, query=None)


def _without_views(found: StatementLineage, views: Mapping[str, Origin]) -> StatementLineage:
    """Return the lineage with the sources of views instead of the views."""
    read = {name: origin for name, origin in views.items() if name in found.tables}
    tables = found.tables.difference(read).union(*(o.tables for o in read.values()))
    columns: dict[str, Depends] | None = None
    if found.columns is not None and all(o.columns is not None for o in read.values()):
        columns = {name: _resolved(own, read) for name, own in found.columns.items()}
    return StatementLineage(found.target, tables, columns, frozenset(read))


def _resolved(own: Depends, views: Mapping[str, Origin]) -> Depends:
    made = Depends()
    for ref in own.values:
        made.values |= _sources(ref, views)
    for ref in own.rows:
        made.rows |= _sources(ref, views)
    for ref in own.conditions:
        made.conditions |= _sources(ref, views)
    return made


def _sources(ref: Ref, views: Mapping[str, Origin]) -> frozenset[Ref]:
    view = views.get(ref[0])
    if view is None:
        return frozenset({ref})
    return view.rows if ref[1] == ROWS_OF else (view.columns or {})[ref[1]]


def _target(tree: exp.Expr) -> exp.Table | None:
    from sqlglot import exp

    found = tree.this
    if isinstance(found, exp.Schema):
        found = found.this
    return found if isinstance(found, exp.Table) else None


def _columns(tree: exp.Expr, target: exp.Table, tables: Tables) -> dict[str, Depends]:
    from sqlglot import exp

    if isinstance(tree, exp.Create):
        answer = analysed(_with(tree, tree.expression), tables)
        return {name: Depends(set(v), set(answer.rows)) for name, v in answer.outputs}
    names = tables.columns(target)
    match tree:
        case exp.Insert():
            return _insert(tree, names, tables)
        case exp.Update():
            chosen = [(tables.spelled(target, e.this.name), e.expression) for e in tree.expressions]
            answer = analysed(_select([e for _, e in chosen], target, None, tree), tables)
            return _set(chosen, answer)
        case exp.Delete():
            answer = analysed(_select([], target, None, tree), tables)
            return {name: Depends(set(), set(answer.rows)) for name in names}
        case exp.Merge():
            return _merge(tree, target, names, tables)
    raise Unknown


def _insert(tree: exp.Insert, names: Sequence[str], tables: Tables) -> dict[str, Depends]:
    from sqlglot import exp

    source = tree.expression
    if isinstance(source, exp.Values):
        return {}
    answer = analysed(_with(tree, source), tables)
    wanted = list(names)
    if isinstance(tree.this, exp.Schema):
        lower = {n.lower(): n for n in names}
        wanted = [lower[i.name.lower()] for i in tree.this.expressions]
    elif tree.args.get("by_name"):
        lower = {n.lower(): n for n in names}
        wanted = [lower[name.lower()] for name, _ in answer.outputs]
    if len(wanted) != len(answer.outputs):
        raise Unknown
    pairs = zip(wanted, answer.outputs, strict=True)
    found = {name: Depends(set(v), set(answer.rows)) for name, (_, v) in pairs}
    for name in names:
        # Columns that are left out get nulls in as many rows.
        found.setdefault(name, Depends(set(), set(answer.rows)))
    return found


def _merge(
    tree: exp.Merge, target: exp.Table, names: Sequence[str], tables: Tables
) -> dict[str, Depends]:
    from sqlglot import exp

    using = tree.args["using"]
    found: dict[str, Depends] = {}
    earlier: dict[tuple[bool, bool], list[exp.Expr]] = {}
    for when in tree.args["whens"].expressions:
        then = when.args["then"]
        chosen: list[tuple[str, Any]] = []
        if isinstance(then, exp.Update | exp.Insert):
            chosen = _assigned(then, target, using, names, tables)
        # A row is changed by the first clause of its kind whose condition is true.
        conditions = earlier.setdefault(
            (bool(when.args.get("matched")), bool(when.args.get("source"))), []
        )
        if when.args.get("condition") is not None:
            conditions.append(when.args["condition"])
        condition = exp.and_(*conditions) if conditions else None
        parts = [e for _, e in chosen]
        on = tree.args["on"]
        answer = analysed(_select(parts, target, using, None, on, condition), tables)
        touched = names if not isinstance(then, exp.Update) else [n for n, _ in chosen]
        # A clause that sets nothing, such as DELETE, has one output that is no column.
        outputs = answer.outputs[: len(chosen)]
        values = dict(zip((n for n, _ in chosen), (v for _, v in outputs), strict=True))
        for name in touched:
            own = found.setdefault(name, Depends())
            own.values |= values.get(name, frozenset())
            if isinstance(then, exp.Update):
                own.conditions |= answer.rows
            else:
                own.rows |= answer.rows
    return found


def _assigned(
    then: exp.Expr, target: exp.Table, using: exp.Expr, names: Sequence[str], tables: Tables
) -> list[tuple[str, Any]]:
    """Return the columns that a clause of MERGE sets, with their expressions."""
    from sqlglot import exp

    is_insert = isinstance(then, exp.Insert)
    every = isinstance(then.this, exp.Star) if is_insert else False
    every = every or any(isinstance(e, exp.Star) for e in then.expressions)
    if every or (is_insert and then.this is None and then.expression is None):
        given = {n.lower() for n in tables.outputs(using)}
        alias = using.alias_or_name
        return [(n, exp.column(n, table=alias)) for n in names if n.lower() in given]
    if not is_insert:
        return [(tables.spelled(target, e.this.name), e.expression) for e in then.expressions]
    columns = names if then.this is None else [c.name for c in then.this.expressions]
    values = then.expression.expressions
    if len(columns) != len(values):
        raise Unknown
    return [(tables.spelled(target, c), v) for c, v in zip(columns, values, strict=True)]


def _set(chosen: Sequence[tuple[str, Any]], answer: Answer) -> dict[str, Depends]:
    pairs = zip(chosen, answer.outputs, strict=True)
    return {name: Depends(set(values), set(), set(answer.rows)) for (name, _), (_, values) in pairs}


def _select(
    parts: Iterable[exp.Expr],
    target: exp.Table,
    using: exp.Expr | None,
    source: exp.Expr | None,
    on: exp.Expr | None = None,
    condition: exp.Expr | None = None,
) -> exp.Expr:
    """Return a query of the expressions over the tables that a statement reads."""
    from sqlglot import exp

    chosen = [exp.alias_(p.copy(), f"c{n}") for n, p in enumerate(parts)]
    query = exp.select(*chosen) if chosen else exp.select("1 AS nothing")
    query = query.from_(target.copy())
    if using is not None:
        query = query.join(using.copy(), on=None if on is None else on.copy())
    if source is not None:
        where = source.args.get("where")
        condition = None if where is None else where.this
        if source.args.get("from_") is not None or source.args.get("using"):
            raise Unknown
    return query if condition is None else query.where(condition.copy())


def _with(tree: exp.Expr, query: exp.Expr | None) -> exp.Expr:
    """Return the query of a statement, with the statement's common table expressions."""
    if query is None:
        raise Unknown
    out = query.copy()
    outer = tree.args.get("with_")
    if outer is not None:
        out.set("with_", outer.copy())
    return out
