"""Replaces the names of the tables and views that a statement reads.

- A statement that runs immediately reads the current state of tables, by their names.
- A query becomes a DataFrame, which may be run at any time, and must show the tables as they
  were when it was created: so tables are read at a version, on branches too. Views that the
  transaction created are created again under another name, with versions of their tables.
- If rows may be written to an Iceberg table, Delta tables that may have deletion vectors are
  read through a view whose files are resolved (`lakeward.engines.spark.plans`). The rows of a
  DataFrame may be written to any table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeAlias

from lakeward.engines.spark.statement import Qualifier, Statement, TableRef
from lakeward.errors import UnsupportedFeature
from lakeward.model.names import TableName
from lakeward.model.quoting import identifier
from lakeward.read.as_of import clause_at
from lakeward.write.spark.formats import Relation
from lakeward.write.spark.tables import SparkTables

Found: TypeAlias = Mapping[int, TableName | None]
"""The lake's tables in a statement, by the positions of their names; None for other relations."""


class Use(Enum):
    """How rows that are read are used."""

    NOW = auto()
    """They are used immediately, or by a view whenever it is read."""
    NOW_RESOLVED = auto()
    """They are written immediately, to a table that takes no files with deletion vectors."""
    FRAME = auto()
    """They become the rows of a DataFrame."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The relations that replace the names of tables and views in a statement."""

    statement: Statement  # the statement
    relations: Mapping[int, Relation]  # by position of the name; without names that stay
    aliases: Mapping[int, str]  # of relations whose name differs from the table's

    def text(self, target: Relation | None) -> str:
        """Return the statement with the names of what it reads and writes replaced."""
        start = None if self.statement.target is None else self.statement.target.start

        def name(ref: TableRef) -> str | None:
            if ref.start == start:
                return None if target is None else target.sql
            if ref.start not in self.relations:
                return None
            sql, alias = self.relations[ref.start].sql, self.aliases.get(ref.start)
            if alias is None or ref.is_aliased or ref.form == "name":
                return sql
            named = f"{sql} AS {identifier(alias)}"
            return named if ref.form == "source" else f"({named})"

        def qualifier(ref: Qualifier) -> str | None:
            if ref.table in self.aliases:
                return identifier(self.aliases[ref.table])
            found = target if ref.table == start else self.relations.get(ref.table)
            return None if found is None else found.qualifier

        return self.statement.rewritten(name, qualifier, self._end)

    def _end(self, ref: TableRef) -> int:
        """Return the position after a name and its `AS OF` clause."""
        clause = clause_at(self.statement.text, ref.end) if ref.travels else None
        return ref.end if clause is None else clause[1]


@dataclass(frozen=True, slots=True)
class _View:
    """A temporary view that the transaction created."""

    statement: Statement  # the statement that created it
    found: Found  # the lake's tables in it
    args: Any  # values for its parameters
    # the query as Spark shows it, to check whether the view was replaced
    text: str | None


class Reader:
    """Finds the Spark relations that replace table names in the statements of a transaction."""

    def __init__(self, tables: SparkTables) -> None:
        self._tables = tables
        self._views: dict[str, _View] = {}

    def sources(self, statement: Statement, found: Found, use: Use) -> Sources:
        """Return the relation that replaces each table name of a statement."""
        relations = {}
        for ref in statement.tables:
            table = found.get(ref.start)
            relation = None if ref.writes else self._relation(ref, statement.text, table, use)
            if relation is not None:
                relations[ref.start] = relation
        own = [r for r in statement.tables if r.start in relations]
        aliases = {
            ref.start: alias_of(ref, statement)
            for ref in own
            if relations[ref.start].qualifier is None
        }
        return Sources(statement, relations, aliases)

    def frame_of(self, table: TableName) -> str:
        """Return the SQL that replaces a table in FROM when a DataFrame is created from it."""
        return self._resolved(table, self._tables.pinned(table)).sql

    def note_view(self, statement: Statement, found: Found, args: Any) -> None:
        """Record a temporary view that a statement has created, with its parameter values."""
        if statement.target is not None:
            name = statement.target.parts[-1].lower()
            text = self._tables.workspace.view_text(name)
            self._views[name] = _View(statement, found, args, text)

    def _as_of(self, ref: TableRef, text: str, table: TableName, use: Use) -> Relation:
        """Return a table at the version or time of the `AS OF` clause after its name."""
        found = clause_at(text, ref.end)
        if found is None:
            what = f"The version of {table} in AS OF must be a literal."
            hint = "Write a number, a tag in quotes, or a time in quotes: VERSION AS OF 12."
            raise UnsupportedFeature(what, hint=hint, table=str(table))
        relation, definition = self._tables.as_of(table, found[0])
        if use is Use.NOW or not self._tables.format(table).may_have_vectors(definition):
            return relation
        resolved = self._tables.workspace.resolved(relation.sql)
        return relation if resolved is None else Relation(resolved, None)

    def _relation(
        self, ref: TableRef, text: str, table: TableName | None, use: Use
    ) -> Relation | None:
        """Return the relation that replaces a name; None if the name stays."""
        if table is not None and ref.travels:
            return self._as_of(ref, text, table, use)
        if table is not None:
            if use is Use.NOW:
                return self._tables.live(table)
            is_frame = use is Use.FRAME
            found = self._tables.pinned(table) if is_frame else self._tables.live(table)
            return self._resolved(table, found)
        if use is Use.NOW or ref.travels:
            return None
        view = self._pinned_view(ref.parts) if use is Use.FRAME else None
        # It may be a view of Delta tables, or a Delta table outside of the lake.
        name, is_view = view or identifier(*ref.parts), use is Use.NOW_RESOLVED
        resolved = self._tables.workspace.resolved(name, is_view=is_view) or view
        return None if resolved is None else Relation(resolved, None)

    def _resolved(self, table: TableName, relation: Relation) -> Relation:
        if not self._tables.format(table).may_have_vectors(self._tables.definition(table)):
            return relation
        resolved = self._tables.workspace.resolved(relation.sql)
        return relation if resolved is None else Relation(resolved, None)

    def _pinned_view(self, parts: tuple[str, ...]) -> str | None:
        """Return a copy of a view that the transaction created, over versions of its tables.

        Returns None for other views.
        """
        workspace = self._tables.workspace
        known = self._views.get(parts[0].lower()) if len(parts) == 1 else None
        if known is None or workspace.view_text(parts[0]) != known.text:
            return None
        copy = identifier(workspace.new_name())
        sources = self.sources(known.statement, known.found, Use.FRAME)
        workspace.frame(sources.text(Relation(copy, None)), known.args)
        return copy


def alias_of(ref: TableRef, statement: Statement) -> str:
    """Return the table's own name, or a longer one if the statement reads another of that name."""
    own = ref.parts[-1]
    others = {t.parts for t in statement.tables if t.parts[-1] == own and not t.is_aliased}
    return own if len(others) < 2 else "_".join(ref.parts)
