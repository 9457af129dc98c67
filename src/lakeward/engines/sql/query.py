"""Parses a user's query before an engine sees it: which tables it reads, at which versions.

The text reaches the engine as written, except that table names are replaced and parameter values
are bound. Statements that would change something are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakeward.engines.spark import scopes
from lakeward.engines.sql import doubles, wording
from lakeward.engines.sql.spans import octets, readable
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.model import parameters
from lakeward.model.expressions.where import reason
from lakeward.model.parameters import Params, Place
from lakeward.model.quietly import quiet_parser

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

    from lakeward.model.schema import Schema

DIALECT: Final = "duckdb"
"""The dialect of texts: standard SQL with `"names"` and `'texts'`, as in DataFusion and DuckDB."""
_REMEMBERED: Final = 20_000
"""Texts of at most this many characters are parsed once, and cached."""
_LONGEST: Final = 1_000_000
_SHOWN: Final = 60
_DESCRIBING: Final = frozenset({"DESCRIBE", "DESC", "SHOW", "EXPLAIN"})


@dataclass(frozen=True, slots=True)
class Travel:
    """The version, time or tag at which a query reads a table."""

    version: int | None = None
    timestamp: int | str | None = None  # ISO 8601, or milliseconds since 1970
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table in a query."""

    parts: tuple[str, ...]  # namespace and name, as far as given
    start: int  # start of the reference in the text
    end: int  # end of the reference in the text
    travel: Travel | None  # the requested version, if any
    alias: str | None  # the alias, if any
    is_quoted: bool = False  # whether the name is quoted, so that its case counts

    @property
    def known_as(self) -> str:
        """Qualifier of the table's columns, in lower case."""
        return (self.alias or self.parts[-1]).lower()

    @property
    def own_alias(self) -> str:
        """The quoted name of the table, in lower case unless the query quotes it.

        Engines fold unquoted names to lower case.
        """
        return quoted(self.parts[-1] if self.is_quoted else self.parts[-1].lower())

    def __str__(self) -> str:
        return ".".join(self.parts)


class ColumnRef(NamedTuple):
    """A column name in a query."""

    name: str
    table: str | None  # the qualifier before it, in lower case
    start: int
    end: int
    is_quoted: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A read-only query."""

    text: str  # as it was written
    tables: tuple[TableRef, ...]
    values: tuple[tuple[Place, Any], ...] = ()  # positions of parameters, with their values
    # spans of qualifiers before columns, each with the index of its table in `tables`
    prefixes: tuple[tuple[int, int, int], ...] = ()
    columns: tuple[ColumnRef, ...] = ()
    wording: tuple[wording.Edit, ...] = ()  # where DataFusion would read the text differently
    compared: tuple[doubles.Pair, ...] = ()  # columns, values and numbers that are compared
    numbers: tuple[int, ...] = ()  # positions of numbers with a point
    # the query with literals for parameters, for analysis; None if it cannot be parsed
    tree: Any = field(default=None, compare=False, repr=False)
    nodes: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    # cached results of the analysis, for a text that is run again
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def rewritten(self, names: Sequence[str], schemas: Sequence[Schema] = ()) -> parameters.Bound:
        """Return the text with other table names, and the values of its parameters.

        Args:
            names: The quoted new name of each table.
            schemas: The columns of each table. Unquoted names in the text match them in any case;
                they are replaced by the exact names, because some engines match only these.
        """
        edits: list[wording.Edit] = list(self.wording)
        for ref, name in zip(self.tables, names, strict=True):
            alias = "" if ref.alias is not None else f" AS {ref.own_alias}"
            edits.append((ref.start, ref.end, name + alias))
        for start, end, table in self.prefixes:
            edits.append((start, end, self.tables[table].own_alias))
        edits += self._respelled(schemas)
        return _edited(self.text, edits, self.values)

    def _respelled(self, schemas: Sequence[Schema]) -> list[tuple[int, int, str]]:
        """Return edits that make engines find columns, and compare them, as all others do.

        Unquoted names are replaced by exact, quoted ones if these differ. Decimals that are
        compared with doubles are cast.
        """
        spelled = [{f.name.lower(): f for f in schema} for schema in schemas]
        edits = []
        kinds: dict[int, str | None] = dict.fromkeys(self.numbers, "number")
        kinds |= {place.start: doubles.kind_of(value) for place, value in self.values}
        for column in self.columns:
            name = column.name.lower()
            fields = [
                known[name]
                for known, ref in zip(spelled, self.tables, strict=False)
                if name in known and column.table in (None, ref.known_as)
            ]
            exact = {field.name for field in fields}
            if len(exact) == 1 and exact != {name} and not column.is_quoted:
                edits.append((column.start, column.end, quoted(exact.pop())))
            found = {doubles.kind_of(field.type) for field in fields}
            kinds[column.start] = found.pop() if len(found) == 1 else None
        return [*edits, *doubles.edits(self.text, self.compared, kinds)]


def read_query(text: str, params: Params | None = None) -> Query:
    """Parse a query.

    Raises:
        InvalidInput: It cannot be parsed, is more than one statement, or lacks a value.
        UnsupportedFeature: It would change something.
    """
    given: object = text
    if not isinstance(given, str) or not given.strip():
        what = "The query is empty." if isinstance(given, str) else "A query must be text."
        raise InvalidInput(what, hint="Write lake.sql('SELECT …').")
    if params is None and len(text) <= _REMEMBERED:
        return _read_again(text)
    return _read(text, params)


@lru_cache(maxsize=256)
def _read_again(text: str) -> Query:
    return _read(text, None)


def _read(text: str, params: Params | None) -> Query:
    if len(text) > _LONGEST:
        what = f"The query has {len(text)} characters; at most {_LONGEST} are allowed."
        raise InvalidInput(what)
    tokens = tokens_of(text)
    values = _values(tokens, params)
    tree = parsed(readable(text, [place for place, _ in values]))
    check_reads_only(tree)
    # The same query with literals for parameters, for analysis; both have the same tables.
    literal = tree
    if values:
        literal = parsed(parameters.with_standard_literals(text, values))
    found = _in_order(scopes.tables(tree, None))
    nodes = _in_order(scopes.tables(literal, None)) if literal is not tree else found
    refs = [_ref(node, tokens, other) for node, other in zip(found, nodes, strict=True)]
    places = {id(node): n for n, node in enumerate(found)}
    prefixes = [
        (p.parts[0].meta["start"], p.parts[-1].meta["end"] + 1, places[id(p.table)])
        for p in scopes.prefixes(tree)
        if id(p.table) in places
    ]
    columns = tuple(_columns(tree))
    spans = {column.start: column.end for column in columns}
    spans |= {place.start: place.end for place, _ in values}
    numbers = {token.start: token.end + 1 for token in tokens if doubles.number(token)}
    return Query(
        text,
        tuple(refs),
        tuple(values),
        tuple(prefixes),
        columns,
        tuple(wording.edits(tokens, parameters.nulls(values))),
        tuple(doubles.pairs(tokens, {**spans, **numbers}, wording.BEFORE, wording.AFTER)),
        tuple(numbers),
        literal,
        tuple(nodes),
    )


def _values(tokens: Sequence[Token], params: Params | None) -> list[tuple[Place, Any]]:
    """Return the places of a text that get bound values, in order, with their values."""
    given = parameters.given(parameters.places(tokens), params)
    return sorted([*given, *octets(tokens)], key=lambda one: one[0].start)


def parsed(text: str) -> exp.Expr:
    """Parse one statement; raise `InvalidInput` if it is invalid or not exactly one."""
    import sqlglot

    try:
        with quiet_parser():
            read = sqlglot.parse(text, dialect=DIALECT)
            # A comment after the last semicolon is a tree, too.
            trees = [t for t in read if t is not None and not isinstance(t, sqlglot.exp.Semicolon)]
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        what = f"The statement is not valid SQL: {reason(error)}."
        hint = "Put texts in single quotes, and names that are SQL words in double quotes."
        raise InvalidInput(what, hint=hint) from error
    if len(trees) != 1:
        what = "Only one statement may be given." if trees else "There is no statement."
        raise InvalidInput(what, hint="Run them one after the other." if trees else None)
    return trees[0]


def is_query(text: str) -> bool:
    """Return whether a statement only reads; raise `InvalidInput` if it is not valid."""
    from sqlglot import exp

    return isinstance(parsed(text), exp.Query | exp.Values)


def check_reads_only(tree: exp.Expr) -> None:
    """Raise `UnsupportedFeature` if any part of a query would change something."""
    from sqlglot import exp

    changes = (exp.DML, exp.DDL, exp.Into)
    if not isinstance(tree, exp.Query | exp.Values) or isinstance(tree, exp.DML):
        raise _refusal(tree)
    for node in tree.walk():
        if isinstance(node, changes) and not isinstance(node, exp.Query):
            raise _refusal(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() == "table_changes":
            what = "table_changes(…) can be used only in tx.sql of a transaction on Spark."
            hint = "Read the rows with lake.table('…').changes(since=…, until=…)."
            raise UnsupportedFeature(what, hint=hint)


def quoted(*names: str) -> str:
    """Return a quoted name of one or more parts, in standard SQL."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def _refusal(node: exp.Expr) -> UnsupportedFeature:
    kind = type(node).__name__.upper()
    name = str(node.name).upper() if kind == "COMMAND" else kind
    what = f"lake.sql runs queries, and this is {name} …: nothing is changed outside a transaction."
    hint = "Write `with lake.transaction() as tx: tx.sql(…)`."
    if name in _DESCRIBING:
        what = f"lake.sql runs queries, and this is {name} …: it runs only in a transaction."
        hint = f"Write `with lake.transaction() as tx: tx.sql('{name} …')`; it changes nothing."
    return UnsupportedFeature(what, hint=hint, changes=True)


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text; raise `InvalidInput` if it is not valid."""
    import sqlglot

    try:
        return list(sqlglot.tokenize(text, dialect=DIALECT))
    except sqlglot.errors.SqlglotError as error:
        what = f"The statement is not valid SQL: {reason(error)}."
        raise InvalidInput(what, hint="Put texts in single quotes.") from error


def _in_order(tables: Any) -> list[exp.Table]:
    """Return the tables in the order of the text, without table functions."""
    from sqlglot import exp

    named = [t for t in tables if isinstance(t.this, exp.Identifier) and "start" in t.this.meta]
    return sorted(named, key=lambda t: t.parts[0].meta["start"])


def _columns(tree: exp.Expr) -> Iterator[ColumnRef]:
    """Yield column names, without aliases that the query itself defines."""
    from sqlglot import exp

    made: dict[str, list[exp.Expr]] = {}
    for alias in tree.find_all(exp.Alias):
        made.setdefault(alias.alias.lower(), []).append(alias)
    for column in tree.find_all(exp.Column):
        this, table = column.this, column.table.lower() or None
        if not isinstance(this, exp.Identifier) or "start" not in this.meta:
            continue
        aliases = () if table is not None else made.get(this.name.lower(), ())
        if all(_is_hidden(alias, column) for alias in aliases):
            start, end = this.meta["start"], this.meta["end"] + 1
            yield ColumnRef(this.name, table, start, end, bool(this.quoted))


def _is_hidden(alias: exp.Expr, column: exp.Expr) -> bool:
    """Return whether a column is in a part of a query that cannot refer to an alias.

    So `x` in `SELECT x AS X FROM t WHERE x > 1` is the table's column; also in a UNION of such.
    """
    from sqlglot import exp

    select, node = alias.parent, column
    within = column.find_ancestor(exp.With)
    is_recursive = within is not None and bool(within.args.get("recursive"))
    while isinstance(select, exp.Select) and node.parent is not None:
        if node.parent is select:
            return node.arg_key in ("expressions", "from_", "joins", "where")
        if isinstance(node.parent, exp.SetOperation) and node.arg_key in ("this", "expression"):
            other: exp.Expr | None = select
            while other is not None and other.parent is not node.parent:
                other = (
                    other.parent
                    if isinstance(other.parent, exp.SetOperation | exp.Subquery)
                    else None
                )
            if other is not None:
                return not is_recursive
        node = node.parent
    return False


def _ref(node: exp.Table, tokens: Sequence[Token], literal: exp.Table) -> TableRef:
    parts = tuple(str(p.name) for p in node.parts)
    start, end = node.parts[0].meta["start"], node.parts[-1].meta["end"] + 1
    version = literal.args.get("version")
    if node.args.get("when") is not None:
        what = f"{'.'.join(parts)}: write VERSION AS OF or TIMESTAMP AS OF."
        raise InvalidInput(what)
    travel = None if version is None else _travel(version, ".".join(parts))
    if travel is not None:
        end = _after_version(tokens, end)
    is_quoted = bool(node.parts[-1].args.get("quoted"))
    return TableRef(parts, start, end, travel, node.alias or None, is_quoted)


def _travel(version: exp.Expr, table: str) -> Travel:
    from sqlglot import exp

    value = version.args.get("expression")
    if isinstance(value, exp.Cast):
        value = value.this
    if str(version.args.get("kind")).upper() != "AS OF" or not isinstance(value, exp.Literal):
        what = f"{table}: a version is a number or a tag, and a moment is text or a parameter."
        raise InvalidInput(what, hint="Write VERSION AS OF 3, or TIMESTAMP AS OF '2026-01-31'.")
    # As `read.as_of` reads the same clauses for Spark.
    is_time, text = str(version.this).upper() == "TIMESTAMP", str(value.this)
    is_number = text.isascii() and text.isdecimal()
    if value.is_string and (is_time or not is_number):
        return Travel(timestamp=text) if is_time else Travel(tag=text)
    if not is_number:
        what = f"{table}: {text[:_SHOWN]} is not a {'time' if is_time else 'version'}."
        raise InvalidInput(what, hint="Versions and seconds since 1970 are whole numbers.")
    return Travel(timestamp=int(text) * 1000) if is_time else Travel(version=int(text))


def _after_version(tokens: Sequence[Token], end: int) -> int:
    """Return where the text continues after `VERSION AS OF value`."""
    rest = [t for t in tokens if t.start >= end]
    at = next(n for n, t in enumerate(rest) if t.text.lower() == "of")
    value = at + 1
    kind, word = rest[value].token_type.name, rest[value].text.lower()
    if kind in ("COLON", "PARAMETER") or word in ("timestamp", "timestamptz", "date"):
        value += 1
    return rest[value].end + 1


def bound(text: str, params: Params | None) -> parameters.Bound:
    """Return a statement with `$p0`, `$p1`, … in place of its parameters, and their values."""
    return _edited(text, (), _values(tokens_of(text), params))


def _edited(
    text: str, edits: Sequence[tuple[int, int, str]], values: Sequence[tuple[Place, Any]]
) -> parameters.Bound:
    """Return the text with edits applied and names in place of the parameters."""
    kept = [
        (place, value)
        for place, value in values
        if not any(start <= place.start < end for start, end, _ in edits)
    ]
    named, known = parameters.bound(kept)
    # From the end, so that earlier positions stay valid.
    for start, end, new in sorted([*edits, *named], reverse=True):
        text = text[:start] + new + text[end:]
    return parameters.Bound(text, known)
