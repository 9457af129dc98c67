"""Parses one SQL statement before Spark gets it: which tables it reads and writes, and where.

A statement may run in a transaction if everything that it can change is a table of the transaction.
Other statements, and those for which this is not known, are refused with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeGuard

from lakeward.engines.spark import merging, scopes
from lakeward.engines.spark.optimize import Optimize, read_optimize
from lakeward.engines.spark.statement import Created, Form, Kind, Qualifier, Statement, TableRef
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.model.clauses import check_clauses
from lakeward.model.expressions.where import reason
from lakeward.model.quietly import quiet_parser

if TYPE_CHECKING:
    from sqlglot import exp

DIALECT: Final = "databricks"
_SHOWN: Final = 200
_FUNCTIONS: Final = frozenset(
    {"range", "explode", "explode_outer", "posexplode", "posexplode_outer"}
    | {"inline", "inline_outer", "stack", "json_tuple", "variant_explode"}
)
"""Table functions whose result depends on their arguments alone."""
_REASONS: Final = {
    "Use": "Tables go by their own names in a transaction.",
    "Copy": "Read the files with spark.read and append the frame.",
    "LoadData": "Read the files with spark.read and append the frame.",
    "Cache": "What is cached outlives the transaction.",
    "VACUUM": "Files that go cannot come back when the transaction is rolled back.",
    "CALL": "A procedure may change tables outside the transaction.",
    "MultitableInserts": "Write one statement for each table.",
}
_WORDS: Final = {
    "CONVERT": "Take a table that lies elsewhere into the lake with lake.adopt.",
    "FSCK": "The lake's log says which files a table has; lakeward doctor looks after them.",
    "GENERATE": "It writes files that everybody sees at once.",
    "MSCK": "The lake's log says which files a table has; lakeward doctor looks after them.",
    "REORG": "Write OPTIMIZE, which is part of the transaction.",
    "REPLACE": "Write CREATE OR REPLACE TABLE.",
    "RESTORE": "Bring the older version back with lake.table(…).restore(…), or lake.restore.",
    "UNDROP": "Bring a dropped table back with lake.undrop(name) or `lakeward undrop`.",
}
"""Why statements that begin with these words are refused, whatever follows."""
_DIRECTORY: Final = re.compile(r"\s*insert\s+overwrite\s+(local\s+)?directory\b", re.IGNORECASE)


def read_statement(text: str) -> Statement:
    """Parse a statement; raise `UnsupportedFeature` if it may not run in a transaction."""
    given: object = text
    if not isinstance(given, str) or not given.strip():
        what = "A statement must be text."
        raise InvalidInput(what, hint='Write it as SQL, such as "SELECT * FROM sales.orders".')
    if text.split(maxsplit=1)[0].lower() == "optimize":
        optimize = read_optimize(text)
        if optimize is not None:
            return _optimize(text, optimize)
    from sqlglot import exp

    plain = merging.plain(text)
    if plain is not None:
        return replace(read_statement(plain), evolves=True)
    check_words(text)
    tree = _tree(text)
    name = type(tree).__name__
    if isinstance(tree, exp.Insert):
        return _insert(text, tree)
    if isinstance(tree, exp.Update | exp.Delete | exp.Merge):
        return _change(text, tree, Kind(name.lower()))
    if isinstance(tree, exp.Create):
        return _create(text, tree)
    if isinstance(tree, exp.Query | exp.Values):
        return _statement(text, tree, Kind.QUERY)
    word = str(tree.this).upper() if isinstance(tree, exp.Command) else name
    raise _refused(text, _REASONS.get(word, "It is not known to stay inside the transaction."))


def checked_expression(text: str) -> str:
    """Return a SQL expression as parsed; raise `InvalidInput` if it is anything else."""
    from sqlglot import exp

    given: object = text
    found = _tree(f"SELECT {text}") if isinstance(given, str) and given.strip() else None
    terms = found.expressions if isinstance(found, exp.Select) else []
    if found is None or len(terms) != 1 or found.find(exp.Table, exp.Subquery, exp.Star):
        what = f"{str(text)[:_SHOWN]!r} is not an expression of one row."
        raise InvalidInput(what, hint='Write a value, such as "target.n + source.n".')
    return f"({terms[0].sql(dialect=DIALECT)})"


def _tree(text: str) -> exp.Expr:
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        # It warns of statements that it cannot parse, which are refused below anyway.
        with quiet_parser():
            found = [t for t in sqlglot.parse(text, dialect=DIALECT) if _says(t)]
    except (SqlglotError, RecursionError) as error:
        nested = isinstance(error, RecursionError)
        said = "it is nested too deeply" if nested else reason(error)
        what = f"The statement cannot be understood: {said}."
        hint = f"The statement begins with `{text.strip()[:_SHOWN]}`."
        raise InvalidInput(what, hint=hint) from error
    if len(found) != 1:
        what = f"{len(found)} statements were given at once."
        raise InvalidInput(what, hint="Call tx.sql once for each.")
    return found[0]


def check_words(text: str) -> None:
    """Raise `UnsupportedFeature` for statements refused by their first words, before parsing."""
    if (word := text.split(maxsplit=1)[0].upper()) in _WORDS:
        raise _refused(text, _WORDS[word])
    if _DIRECTORY.match(text):
        raise _refused(text, "It writes to a directory.")


def _says(tree: exp.Expr | None) -> TypeGuard[exp.Expr]:
    """Whether there is a statement, and not only a comment."""
    from sqlglot import exp

    return tree is not None and not isinstance(tree, exp.Semicolon)


def _insert(text: str, tree: exp.Insert) -> Statement:
    from sqlglot import exp

    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    if not isinstance(target, exp.Table):
        raise _refused(text, "It writes to a directory.")
    replaces = bool(tree.args.get("overwrite") or tree.args.get("where")) or bool(
        re.search(r"\breplace\s+(where|using|on)\b", text, re.IGNORECASE)
    )
    kind = Kind.OVERWRITE if replaces else Kind.INSERT
    return _statement(text, tree, kind, target, reads=replaces)


def _change(text: str, tree: exp.Update | exp.Delete | exp.Merge, kind: Kind) -> Statement:
    from sqlglot import exp

    if not isinstance(tree.this, exp.Table):
        raise _refused(text, "It does not say which table it changes.")
    where = tree.args.get("where")
    found = _statement(text, tree, kind, tree.this, reads=True)
    asks = kind is not Kind.MERGE and tree.find(exp.Query) is not None
    condition = None if where is None else where.this.sql(dialect=DIALECT)
    return replace(found, where=condition, asks=asks)


def _create(text: str, tree: exp.Create) -> Statement:
    from sqlglot import exp

    properties = [] if tree.args.get("properties") is None else tree.args["properties"].expressions
    if tree.kind == "VIEW":
        if not any(isinstance(p, exp.TemporaryProperty) for p in properties):
            raise _refused(text, "A view outlives the transaction; make it a TEMPORARY one.")
        if any(isinstance(p, exp.GlobalProperty) for p in properties):
            raise _refused(text, "A global view outlives the transaction; leave GLOBAL out.")
        if tree.expression is None:
            raise _refused(text, "Read the files with spark.read, and name the frame.")
        return _statement(text, tree, Kind.VIEW, tree.this)
    if tree.kind != "TABLE":
        raise _refused(text, "Only tables and temporary views can be made in a transaction.")
    if tree.args.get("clone") or any(isinstance(p, exp.LikeProperty) for p in properties):
        raise _refused(text, "A copy of a table is made with CREATE TABLE … AS SELECT.")
    if any(isinstance(p, exp.LocationProperty) for p in properties):
        raise _refused(text, "It names a location; the lake chooses where tables lie.")
    kept = (exp.FileFormatProperty, exp.PartitionedByProperty, exp.SchemaCommentProperty)
    for other in properties:
        if not isinstance(other, kept) and type(other) is not exp.Property:
            why = "It asks for what the lake does not keep of a table: "
            raise _refused(text, why + other.sql(dialect=DIALECT))
    check_clauses(tree)
    is_declared = isinstance(tree.this, exp.Schema)
    if is_declared and tree.expression is not None:
        raise _refused(text, "Its query says which columns there are; leave out their list.")
    target = tree.this.this if is_declared else tree.this
    declared = tree.this.expressions if is_declared else ()
    given = {type(p): p for p in properties}
    format_ = given.get(exp.FileFormatProperty)
    partitions = given.get(exp.PartitionedByProperty)
    comment = given.get(exp.SchemaCommentProperty)
    plain = [p for p in properties if type(p) is exp.Property]
    created = Created(
        is_filled=tree.expression is not None,
        format=None if format_ is None else str(format_.this.name).lower(),
        partition_by=tuple(map(_term, partitions.this.expressions if partitions else ())),
        properties={str(p.this.name): str(p.args["value"].name) for p in plain},
        comment=None if comment is None else str(comment.this.name),
        if_missing=bool(tree.args.get("exists")),
        columns=", ".join(c.sql(dialect=DIALECT) for c in declared) if is_declared else None,
        replaces=bool(tree.args.get("replace")),
    )
    return replace(_statement(text, tree, Kind.CREATE, target), created=created)


def _term(term: exp.Expr) -> str:
    """Return a column or a transform to partition by, as `lake.create` takes it."""
    text = term.sql(dialect=DIALECT).replace("`", "")
    return re.sub(r"^(YEAR|MONTH|DAY|HOUR)S?\(", lambda m: f"{m[1].lower()}(", text, flags=re.I)


def _optimize(text: str, found: Optimize) -> Statement:
    target = TableRef(found.table, found.start, found.end, writes=True)
    return Statement(
        text, Kind.OPTIMIZE, (target,), target=target, where=found.where, zorder=found.columns
    )


def _statement(
    text: str, tree: exp.Expr, kind: Kind, target: exp.Expr | None = None, *, reads: bool = False
) -> Statement:
    from sqlglot import exp

    found: list[TableRef] = []
    written: TableRef | None = None
    starts: dict[int, int] = {}
    for entry in tree.find_all(exp.CTE):
        if not isinstance(entry.this, exp.Query | exp.Values):
            raise _refused(text, f"Write the query of {entry.alias} as SELECT … FROM.")
    for node in scopes.tables(tree, target):
        if not all(isinstance(p, exp.Identifier) for p in node.parts):
            _check_function(text, node)
            continue
        ref = _ref(text, node)
        if node is target:
            ref = written = replace(ref, reads=reads, writes=True)
        found.append(ref)
        starts[id(node)] = ref.start
    found.sort(key=lambda t: t.start)
    qualifiers = tuple(
        Qualifier(tuple(p.name for p in q.parts), *_span(q.parts), starts[id(q.table)])
        for q in scopes.prefixes(tree)
        if id(q.table) in starts
    )
    return Statement(text, kind, tuple(found), qualifiers, written)


def _ref(text: str, node: exp.Table) -> TableRef:
    parts: Sequence[exp.Expr] = node.parts
    if "start" not in parts[0].meta or "end" not in parts[-1].meta:
        raise _refused(text, f"It is not known where it names the table {node.name}.")
    return TableRef(
        tuple(p.name for p in parts),
        *_span(parts),
        travels=node.args.get("version") is not None,
        is_aliased=bool(node.alias),
        form=_form(node),
    )


def _form(node: exp.Table) -> Form:
    from sqlglot import exp

    if isinstance(node.parent, exp.Merge):
        return "source"
    # INSERT INTO … TABLE name
    return "name" if isinstance(node.parent, exp.Insert) else "relation"


def _span(parts: Sequence[exp.Expr]) -> tuple[int, int]:
    """Return where a name begins in the text, and where the text continues after it."""
    return int(parts[0].meta["start"]), int(parts[-1].meta["end"]) + 1


def _check_function(text: str, node: exp.Table) -> None:
    called = node.this.name.lower() or type(node.this).__name__.lower()
    if called not in _FUNCTIONS:
        why = f"The table function {called} may look at tables that the transaction does not know."
        raise _refused(text, why)


def query_of(text: str) -> str:
    """Return the query of a CREATE TABLE … AS."""
    import sqlglot

    depth = 0
    for token in sqlglot.tokenize(text, dialect=DIALECT):
        word = token.text.upper()
        depth += {"(": 1, ")": -1}.get(word, 0)
        if word == "AS" and depth == 0:
            return text[int(token.end) + 1 :].rstrip().rstrip(";")
    raise _refused(text, "It is not known where its query begins.")


def _refused(text: str, why: str) -> UnsupportedFeature:
    shown = " ".join(text.split())[:_SHOWN]
    what = f"This may not run in a transaction: `{shown}`."
    return UnsupportedFeature(what, hint=why, statement=text)
