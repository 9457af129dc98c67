"""Runs SQL statements in a transaction without Spark.

Changes of rows run the same code as `tx.append`, `update`, `delete` and `merge`; queries, including
those inside of changes, run on DataFusion over the rows that the transaction sees. Parameter values
become literals in the parsed tree, and are never inserted into the text of the statement.
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
from lakeward.model import parameters
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
from lakeward.model.evolution.apply import is_needed
from lakeward.model.evolution.merging import merging as merged
from lakeward.model.expressions.when import Actions, When
from lakeward.model.names import TableName
from lakeward.model.parameters import Params
from lakeward.read.result import QueryResult, of_table
from lakeward.write.plan.change import RowChanges
from lakeward.write.transaction.seen import Seen
from lakeward.write.transaction.sql_values import (
    DIALECT,
    assigned,
    check_assigned,
    fitted,
    inserted_names,
    literal,
    nullable,
    parts_of,
    spelled,
)

if TYPE_CHECKING:
    from sqlglot import exp

_MOST: Final = 10_000
"""The most distinct values of a subquery in IN."""
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
        """Parse the statement, with literals in place of parameters."""
        from sqlglot import exp

        tokens = queries.tokens_of(text)
        found = queries.parsed(parameters.with_standard_literals(text, args, tokens))

        def with_octets(node: exp.Expr) -> exp.Expr:
            plain = isinstance(node, exp.Unhex) and isinstance(node.this, exp.Literal)
            return exp.HexString(this=node.this.this) if plain else node

        return found.transform(with_octets)

    # Statements about whole tables.

    def _command(self, command: Command) -> QueryResult | RowChanges:
        match command:
            case AlterTable(table=parts, asked=asked):
                name = self._seen.name(parts)
                for change, lenient in asked:
                    if not lenient or is_needed(self._seen.definition(name), change):
                        self._tx.alter(str(name)).apply(change)
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
            rows = self._seen.query(query.sql(dialect=queries.DIALECT), None).to_arrow()
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
        rows = self._rows_of(source)
        if tree.args.get("by_name"):
            if listed_names is not None:
                what = "INSERT BY NAME takes the names from its query, not from a list of columns."
                raise InvalidInput(what, hint="Leave out BY NAME, or the list.")
            listed_names = list(rows.column_names)
        data = fitted(rows, self._seen.definition(name), listed_names, str(name))
        if tree.args.get("overwrite"):
            return self._tx.overwrite(str(name), data)
        return self._tx.append(str(name), data)

    def _rows_of(self, source: exp.Expr) -> pa.Table:
        from sqlglot import exp

        if isinstance(source, exp.Values):
            text = f"SELECT * FROM ({source.sql(dialect=queries.DIALECT)}) AS v"  # noqa: S608  a rendered tree
        else:
            text = source.sql(dialect=queries.DIALECT)
        return self._seen.query(text, None).to_arrow()

    def _update(self, tree: exp.Update) -> RowChanges:
        name, known = self._target(tree.this)
        schema = self._seen.definition(name).schema
        values = {
            spelled(assigned(one.this, known), schema): self._text(one.expression, known)
            for one in tree.expressions
        }
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
        text = exp.select("*").from_(bare).sql(dialect=queries.DIALECT)
        data = self._seen.query(text, None).to_arrow()
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
        schema = self._seen.definition(name).schema
        for change in merged(schema, nullable(pa.schema(taken)), typed=True):
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
            return {
                spelled(assigned(e.this, target), schema): self._text(e.expression, known)
                for e in then.expressions
            }
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
        """Return an expression as text for the transaction's operations, with subqueries evaluated.

        Args:
            node: The expression.
            known: Column qualifiers, and what replaces each of them; nothing if empty.
        """
        from sqlglot import exp

        becomes = known if isinstance(known, Mapping) else dict.fromkeys(known, "")
        holder = exp.Paren(this=node.copy())
        whole = [q for q in holder.find_all(exp.Query) if q.find_ancestor(exp.Query) is None]
        for subquery in whole:
            self._replace(subquery, becomes)
        for column in list(holder.find_all(exp.Column)):
            before = ".".join(p.name for p in column.parts[:-1]).lower()
            if before in becomes:
                new = becomes[before]
                column.replace(exp.column(column.this.copy(), table=new or None, quoted=True))
        return str(holder.this.sql(dialect=DIALECT))

    def _replace(self, query: exp.Expr, known: Mapping[str, str]) -> None:
        """Run a subquery and replace it in its expression by its values."""
        from sqlglot import exp

        outer = {c.table.lower() for c in query.find_all(exp.Column)} & set(known)
        own = {t.alias_or_name.lower() for t in query.find_all(exp.Table)}
        if outer - own - {""}:
            what = "A subquery that refers to the changed row is not supported here."
            raise UnsupportedFeature(what, hint="Write a MERGE, or use Spark.")
        body = query.this if isinstance(query, exp.Subquery) else query
        rows = self._seen.query(body.sql(dialect=queries.DIALECT), None).to_arrow()
        parent = query.parent
        if isinstance(parent, exp.Exists):
            parent.replace(exp.Boolean(this=rows.num_rows > 0))
            return
        if rows.num_columns != 1:
            what = f"A subquery must have one column here, and this one has {rows.num_columns}."
            raise InvalidInput(what)
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


def _unknown(kind: str, instead: str | None = None) -> UnsupportedFeature:
    what = (
        f"Without Spark a transaction runs queries, changes and definitions of tables; not {kind}."
    )
    return UnsupportedFeature(
        what, hint=instead or "Spark runs more: lake.transaction(spark=spark)."
    )
