"""A SQL statement that may run in a transaction, with the tables that it reads and writes.

Spark gets the text as it was written, except for the names of tables, which are replaced in place.
`lakeward.engines.spark.parse_statement` makes these records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

Form: TypeAlias = Literal["relation", "name", "source"]
"""What SQL allows in a place: any relation of FROM, a name, or a name with an optional alias."""


class Kind(StrEnum):
    """The kind of a statement."""

    QUERY = "query"
    INSERT = "insert"
    OVERWRITE = "overwrite"
    UPDATE = "update"
    DELETE = "delete"
    MERGE = "merge"
    CREATE = "create"
    OPTIMIZE = "optimize"
    VIEW = "view"


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table's name in a statement, with its position."""

    parts: tuple[str, ...]  # catalog, namespace and name, as far as they are given
    start: int  # where the name begins in the text
    end: int  # where the text continues after the name
    reads: bool = True  # whether the statement reads the table's rows there
    writes: bool = False  # whether the statement changes the table's rows
    travels: bool = False  # whether a version or time follows the name
    is_aliased: bool = False  # whether the table has an alias
    form: Form = "relation"  # what may replace the name

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A table's qualified name before one of its columns."""

    parts: tuple[str, ...]  # namespace and name, after the catalog if it is given
    start: int  # where the name begins in the text
    end: int  # where the text continues after the name
    table: int  # where the reference to the table begins in the text


@dataclass(frozen=True, slots=True)
class Created:
    """The properties of a table that a statement creates."""

    is_filled: bool  # whether the table gets the rows of a query
    format: str | None  # the table's format, if it is given
    partition_by: tuple[str, ...]  # columns and transforms, as `lake.create` takes them
    properties: dict[str, str]  # table properties
    comment: str | None  # the table's comment
    if_missing: bool  # whether an existing table is left unchanged
    columns: str | None  # the declared columns, if there is no query
    replaces: bool = False  # whether an existing table is replaced


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that may run in a transaction."""

    text: str  # as it was written
    kind: Kind  # the kind of statement
    # in the order of the text, without names that the statement defines, as in WITH
    tables: tuple[TableRef, ...]
    qualifiers: tuple[Qualifier, ...] = ()  # qualified names of these tables before columns
    target: TableRef | None = None  # the table that it writes
    # the condition: of an UPDATE or DELETE on rows, of an OPTIMIZE on files
    where: str | None = None
    created: Created | None = None  # of a CREATE TABLE
    zorder: tuple[str, ...] = ()  # of an OPTIMIZE: the columns by which rows are clustered
    asks: bool = False  # UPDATE or DELETE only: whether it has a subquery
    evolves: bool = False  # MERGE only: whether it may add columns

    @property
    def changes(self) -> bool:
        """Whether the statement changes anything, including temporary views of the session."""
        return self.kind is not Kind.QUERY

    def rewritten(
        self,
        name: Callable[[TableRef], str | None],
        qualifier: Callable[[Qualifier], str | None],
        behind: Callable[[TableRef], int] = lambda ref: ref.end,
    ) -> str:
        """Return the text with the table names and qualifiers that two functions return.

        Where a function returns None, the text stays. A name replaces the text from the start of
        its reference to the offset `behind`.
        """
        found = [(t.start, behind(t), name(t)) for t in self.tables]
        found += [(q.start, q.end, qualifier(q)) for q in self.qualifiers]
        out, done = [], 0
        for start, end, new in sorted(found, key=lambda f: f[0]):
            if new is not None:
                out += [self.text[done:start], new]
                done = end
        return "".join([*out, self.text[done:]])
