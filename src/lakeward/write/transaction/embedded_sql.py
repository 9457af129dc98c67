"""Runs SQL statements in a transaction without Spark.

Changes of rows run the same code as `tx.append`, `update`, `delete` and `merge`; queries, including
those inside of changes, run on DataFusion over the rows that the transaction sees. Parameter values
are bound in queries, and become literals in conditions and assignments; they are never inserted
into the text of the statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeward.engines.spark import merging
from lakeward.engines.spark.parse_statement import check_words, read_statement
from lakeward.engines.spark.statement import Kind
from lakeward.engines.sql import query as queries
from lakeward.errors import AlreadyExists, InvalidInput, TableNotFound, UnsupportedFeature
from lakeward.model.clauses import check_clauses
from lakeward.model.commands import (
    AlterTable,
    Command,
    DropTable,
    Explain,
    Setting,
    ShowNamespaces,
    ShowTable,
    ShowTables,
    TruncateTable,
    read_command,
)
from lakeward.model.definition import Definition
from lakeward.model.described import listed, namespaces, shown
from lakeward.model.evolution.merging import merging as merged
from lakeward.model.expressions.when import Actions, When
from lakeward.model.names import TableName
from lakeward.model.parameters import Params
from lakeward.read.result import QueryResult, of_table
from lakeward.write.plan.change import RowChanges
from lakeward.write.stage.evolutions import check_merging
from lakeward.write.transaction.seen import Seen
from lakeward.write.transaction.sql_text import expression_text
from lakeward.write.transaction.sql_values import (
    assigned,
    cast_decimals,
    check_assigned,
    check_distinct,
    fitted,
    inserted_names,
    nullable,
    parts_of,
    spelled,
    writable,
)

if TYPE_CHECKING:
    from sqlglot import exp

_INSTEAD: Final = {
    "OPTIMIZE": "Call table.optimize() outside of the transaction, or use Spark.",
    "VACUUM": "Call table.vacuum() or `lakeward vacuum`, outside of the transaction.",
    "COPY": "Read the files with pyarrow and append the rows, or use `lakeward ingest`.",
    **dict.fromkeys(("BEGIN", "START", "COMMIT"), "It is open, and commits when its block ends."),
    "ROLLBACK": "Call tx.rollback().",
    "USE": "Write the full name of each table, such as sales.orders.",
}


class EmbeddedSql:
    """Runs statements in one transaction."""

    def __init__(self, tx: Any, seen: Seen) -> None:
        self._tx = tx  # the `Transaction` whose operations are used
        self._seen = seen
        self._values: Mapping[str, Any] = {}  # of the statement's parameters, by their new names

    def run(self, text: str, args: Params | None) -> QueryResult | RowChanges:
        """Run a statement; return the rows of a query, or the counts of a change."""
        from sqlglot import exp

        command = read_command(text)
        if command is not None:
            if command.changes and self._tx._is_replay():
                return RowChanges()
            return self._command(command)
        check_words(text)
        plain = merging.plain(text)
        tree = self._tree(plain or text, args)
        if isinstance(tree, exp.Query | exp.Values):
            return self._seen.query(text, args)
        if self._tx._is_replay():
            return RowChanges()
        if isinstance(tree, exp.Create):
            return self._create(text, tree)
        check_clauses(tree)
        match tree:
            case exp.Insert():
                return self._insert(tree)
            case exp.Update():
                return self._update(tree)
            case exp.Delete():
                return self._delete(tree)
            case exp.Merge():
                return self._merge(tree, evolves=plain is not None)
        word = text.split(maxsplit=1)[0].upper().rstrip(";")
        kind = f"{word} statements"
        raise _unknown(kind, _INSTEAD.get(word))

    def _tree(self, text: str, args: Params | None) -> exp.Expr:
        """Parse the statement; name its parameters `$p0`, `$p1`, …, and keep their values."""
        bound = queries.bound(text, args)
        self._values = bound.values
        return queries.parsed(bound.text)

    def _query(self, tree: exp.Expr) -> pa.Table:
        """Return the rows of a query inside of the statement."""
        from sqlglot import exp

        own = {place.name for place in tree.find_all(exp.Placeholder)}
        values = {name: value for name, value in self._values.items() if name in own}
        text = tree.sql(dialect=queries.DIALECT)
        return writable(self._seen.query(text, values or None).to_arrow())

    # Statements about whole tables.

    def _command(self, command: Command) -> QueryResult | RowChanges:
        match command:
            case AlterTable(table=parts, asked=asked):
                name = self._seen.name(parts)
                for change, lenient in asked:
                    self._tx.alter(str(name)).apply(change, if_needed=lenient)
                return RowChanges()
            case DropTable(table=parts, if_exists=if_exists):
                try:
                    name = self._seen.name(parts)
                except TableNotFound:
                    if if_exists:
                        return RowChanges()
                    raise
                self._tx.drop(str(name))
                return RowChanges()
            case TruncateTable(table=parts):
                return self._tx.delete(str(self._seen.name(parts)), where="true")
            case Explain(mode="", statement=text) if queries.is_query(text):
                return self._seen.query(text, None, explain=True)
            case Explain():
                what = "Without Spark, EXPLAIN shows the plan of a query."
                raise UnsupportedFeature(what, hint="Write EXPLAIN SELECT …, or use Spark.")
            case Setting():
                what = "SET and RESET are about settings of a Spark session."
                raise UnsupportedFeature(what, hint="Use lake.transaction(spark=spark).")
            case ShowTables():
                return of_table(listed(command, self._seen.names()))
            case ShowNamespaces():
                return of_table(namespaces(command, self._seen.names()))
            case ShowTable(table=parts):
                name = self._seen.name(parts)
                head, definition = self._seen.head(name), self._seen.definition(name)
                return of_table(shown(command, head, definition, self._seen.place(head)))
        raise _unknown(type(command).__name__)

    def _create(self, text: str, tree: exp.Expr) -> RowChanges:
        statement = read_statement(text)
        check_clauses(tree)
        created = statement.created
        if statement.kind is not Kind.CREATE or created is None or statement.target is None:
            what = "Without Spark, CREATE makes tables."
            raise UnsupportedFeature(what, hint="Write CREATE TABLE name (columns) or AS SELECT.")
        name = TableName.parse(".".join(statement.target.parts))
        exists = self._seen.knows(name)
        if exists and not created.replaces:
            if created.if_missing:
                return RowChanges()
            what = f"The lake has a table {name} already."
            raise AlreadyExists(what, hint="Choose another name.", table=str(name))
        query = tree.args.get("expression")
        rows = None
        if query is not None:
            rows = self._query(query)
        schema: Any = created.columns or "" if rows is None else nullable(rows.schema)
        if exists and self._seen.replace(name, schema, created, rows):
            return RowChanges() if rows is None else RowChanges(inserted=rows.num_rows)
        self._seen.make(name, schema, created, in_place_of_new=exists)
        return RowChanges() if rows is None else self._tx.append(str(name), rows)

    # Changes of rows.

    def _insert(self, tree: exp.Insert) -> RowChanges:
        from sqlglot import exp

        target, listed_names = tree.this, None
        if isinstance(target, exp.Schema):
            listed_names = [i.name for i in target.expressions]
            target = target.this
        name = self._seen.name(parts_of(target))
        source = tree.args.get("expression")
        if source is None:
            what = "INSERT needs VALUES or a query."
            raise InvalidInput(what)
        if tree.args.get("with_") is not None:
            if source.args.get("with_") is not None:
                what = "INSERT with WITH both before it and before its query is not supported."
                raise UnsupportedFeature(what, hint="Write one WITH.")
            source.set("with_", tree.args["with_"])
        if tree.args.get("by_name") and listed_names is not None:
            what = "INSERT BY NAME takes the names from its query, not from a list of columns."
            raise InvalidInput(what, hint="Leave out BY NAME, or the list.")
        check_distinct(listed_names or ())
        definition = self._seen.definition(name)
        cast_decimals(source, definition, listed_names, by_name=bool(tree.args.get("by_name")))
        rows = self._rows_of(source)
        if tree.args.get("by_name"):
            listed_names = list(rows.column_names)
            check_distinct(listed_names)
        data = fitted(rows, definition, listed_names, str(name))
        if tree.args.get("overwrite"):
            return self._tx.overwrite(str(name), data)
        return self._tx.append(str(name), data)

    def _rows_of(self, source: exp.Expr) -> pa.Table:
        from sqlglot import exp

        if isinstance(source, exp.Values):
            source = exp.select("*").from_(exp.alias_(source.copy(), "v", table=True))
        return self._query(source)

    def _update(self, tree: exp.Update) -> RowChanges:
        name, known = self._target(tree.this)
        schema = self._seen.definition(name).schema
        columns = [spelled(assigned(one.this, known), schema) for one in tree.expressions]
        check_distinct(columns)
        texts = [self._text(one.expression, known) for one in tree.expressions]
        values = dict(zip(columns, texts, strict=True))
        return self._tx.update(str(name), set=values, where=self._where(tree, known))

    def _delete(self, tree: exp.Delete) -> RowChanges:
        name, known = self._target(tree.this)
        return self._tx.delete(str(name), where=self._where(tree, known) or "true")

    def _merge(self, tree: exp.Merge, *, evolves: bool) -> RowChanges:
        from sqlglot import exp

        name, target = self._target(tree.this)
        check_assigned(tree, target)
        using = tree.args["using"]
        alias = using.alias_or_name.lower()
        bare = using.copy()
        cast_decimals(bare, self._seen.definition(name), None, by_name=True)
        data = self._query(exp.select("*").from_(bare))
        if not tree.args.get("on"):
            what = "MERGE needs ON and a condition."
            raise InvalidInput(what)
        known = {**dict.fromkeys(target, "target"), alias: "source"}
        if evolves:
            self._evolve(name, data.schema, merging.evolving(tree))
        definition = self._seen.definition(name)
        # A merge accepts no columns that it does not use.
        parts = (tree.args["on"], tree.args["whens"])
        used = {c.name.lower() for part in parts for c in part.find_all(exp.Column)}
        used |= {n.lower() for n in definition.schema.names}
        data = data.select([n for n in data.column_names if n.lower() in used])
        check_distinct(data.column_names)
        # `INSERT *` and `UPDATE SET *` take columns by their names, in any case.
        data = data.rename_columns([spelled(n, definition.schema) for n in data.column_names])
        kinds: dict[str, list[Any]] = {"matched": [], "not_matched": [], "by_source": []}
        for when in tree.args["whens"].expressions:
            kind = "matched" if when.args.get("matched") else "not_matched"
            if kind == "not_matched" and when.args.get("source"):
                kind = "by_source"
            action: Any = self._action(when.args["then"], known, target, definition)
            condition = when.args.get("condition")
            if condition is not None:
                action = When(self._text(condition, known), action)
            kinds[kind].append(action)
        clauses: dict[str, Actions] = {k: v or None for k, v in kinds.items()}
        return self._tx.merge(
            str(name),
            data,
            on=self._text(tree.args["on"], known),
            matched=clauses["matched"],
            not_matched=clauses["not_matched"],
            not_matched_by_source=clauses["by_source"],
        )

    def _evolve(self, name: TableName, given: pa.Schema, takes: merging.Evolving) -> None:
        """Add columns, and widen types, that the actions of a merge take from the data."""
        taken = [f for f in given if takes.takes_all or f.name.lower() in takes.assigned]
        definition = self._seen.definition(name)
        check_merging(self._seen.head(name), definition)
        for change in merged(definition.schema, nullable(pa.schema(taken)), typed=True):
            self._tx.alter(str(name)).apply(change)

    def _action(
        self,
        then: exp.Expr,
        known: Mapping[str, str],
        target: Sequence[str],
        definition: Definition,
    ) -> str | dict[str, str]:
        from sqlglot import exp

        schema = definition.schema
        if isinstance(then, exp.Update) and then.expressions:
            if any(isinstance(e, exp.Star) for e in then.expressions):
                return "update"
            columns = [spelled(assigned(e.this, target), schema) for e in then.expressions]
            check_distinct(columns)
            texts = [self._text(e.expression, known) for e in then.expressions]
            return dict(zip(columns, texts, strict=True))
        if isinstance(then, exp.Insert) and (
            then.expression or not isinstance(then.this, exp.Tuple)
        ):
            if isinstance(then.this, exp.Star) or not (then.this or then.expression):
                return "insert"
            values = then.expression.expressions
            if then.this:
                columns = [assigned(c, target) for c in then.this.expressions]
            else:
                columns = inserted_names(definition, len(values))
            if len(columns) != len(values):
                what = f"INSERT names {len(columns)} columns and has {len(values)} values."
                raise InvalidInput(what)
            check_distinct(columns)
            pairs = zip(columns, values, strict=True)
            return {spelled(c, schema): self._text(v, known) for c, v in pairs}
        if str(then.name).lower() == "delete":
            return "delete"
        what = f"{then.sql()} is no action of MERGE that is understood."
        raise UnsupportedFeature(what, hint="Write UPDATE SET, DELETE or INSERT.")

    # Parts of statements.

    def _target(self, node: exp.Expr) -> tuple[TableName, tuple[str, ...]]:
        """Return the table that a statement changes, and the possible qualifiers of its columns."""
        name = self._seen.name(parts_of(node))
        known = [node.alias] if node.alias else [node.name, ".".join(parts_of(node))]
        return name, tuple(k.lower() for k in known)

    def _where(self, tree: exp.Expr, known: Sequence[str]) -> str | None:
        where = tree.args.get("where")
        return None if where is None else self._text(where.this, dict.fromkeys(known, ""))

    def _text(self, node: exp.Expr, known: Mapping[str, str] | Sequence[str]) -> str:
        """Return an expression as text, with subqueries evaluated; see `expression_text`."""
        becomes = known if isinstance(known, Mapping) else dict.fromkeys(known, "")
        return expression_text(node, becomes, self._values, self._query)


def _unknown(kind: str, instead: str | None = None) -> UnsupportedFeature:
    what = (
        f"Without Spark a transaction runs queries, changes and definitions of tables; not {kind}."
    )
    return UnsupportedFeature(
        what, hint=instead or "Spark runs more: lake.transaction(spark=spark)."
    )
