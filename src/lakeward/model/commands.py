"""Parses SQL statements about whole tables, without an engine.

These are ALTER TABLE, COMMENT ON, DROP TABLE, TRUNCATE TABLE, SHOW, DESCRIBE, EXPLAIN, SET and
RESET, in Spark's syntax, with the same meaning on every engine. The engines parse queries and
changes of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from lakeward.errors import UnsupportedFeature
from lakeward.model.evolution.alterations import Alteration, SetComment
from lakeward.model.evolution.clauses import clause
from lakeward.model.words import Words

Parts: TypeAlias = tuple[str, ...]
"""The parts of a table's name in a statement: the name, before it a namespace and a catalog."""

_HINT: Final = "Write it as Spark does, such as ALTER TABLE sales.orders ADD COLUMN note string."


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Changes of a table's definition.

    Attributes:
        table: The table's name.
        asked: Each change, and whether it is skipped if there is nothing to do (IF EXISTS and the
            like).
    """

    changes: ClassVar[bool] = True
    table: Parts
    asked: tuple[tuple[Alteration, bool], ...]


@dataclass(frozen=True, slots=True)
class DropTable:
    """A request to drop a table; with `if_exists`, a missing table is no error."""

    changes: ClassVar[bool] = True
    table: Parts
    if_exists: bool


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """A request to delete all rows of a table."""

    changes: ClassVar[bool] = True
    table: Parts


@dataclass(frozen=True, slots=True)
class ShowTables:
    """A request for the tables of a namespace, or of the lake if None, that match a pattern."""

    changes: ClassVar[bool] = False
    namespace: str | None
    pattern: str | None


@dataclass(frozen=True, slots=True)
class ShowNamespaces:
    """A request for the namespaces that match a pattern, or all if None."""

    changes: ClassVar[bool] = False
    pattern: str | None


@dataclass(frozen=True, slots=True)
class ShowTable:
    """A request for information about one table.

    Attributes:
        what: `columns`, `properties`, `create`, `describe` or `extended`.
        table: The table's name.
        part: The property or column to show; None for all.
    """

    changes: ClassVar[bool] = False
    what: str
    table: Parts
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Explain:
    """A request for the plan of a statement.

    Attributes:
        mode: The keyword for the level of detail, such as `EXTENDED`; empty if there is none.
        statement: The statement whose plan is shown.
    """

    changes: ClassVar[bool] = False
    mode: str
    statement: str


@dataclass(frozen=True, slots=True)
class Setting:
    """A request to read, set or reset a setting of the engine's session, as written."""

    changes: ClassVar[bool] = False
    text: str


Command: TypeAlias = (
    AlterTable
    | DropTable
    | TruncateTable
    | ShowTables
    | ShowNamespaces
    | ShowTable
    | Explain
    | Setting
)


def read_command(text: str) -> Command | None:
    """Parse a statement about whole tables; return None for other statements.

    Raises:
        InvalidInput: The statement cannot be parsed.
        UnsupportedFeature: The statement cannot be part of a transaction; the error says what to do
            instead.
    """
    given: object = text
    if not isinstance(given, str):
        return None
    first = text.split(maxsplit=1)[:1]
    read = _FIRST.get(first[0].upper().rstrip(";")) if first else None
    if read is None:
        return None
    words = Words(text, _HINT)
    found = read(words)
    if found is not None:
        words.end()
    return found


def _alter(words: Words) -> Command:
    words.need("ALTER")
    if not words.words("TABLE"):
        what = "Only tables can be altered in a transaction."
        raise UnsupportedFeature(what, hint="Views and namespaces are outside of it.")
    table = words.names()
    asked = list(clause(words))
    while words.words(","):
        asked += clause(words)
    return AlterTable(table, tuple(asked))


def _comment(words: Words) -> Command:
    words.need("COMMENT")
    words.need("ON")
    kind = words.one_of("TABLE", "COLUMN")
    if kind is None:
        what = "Only tables and their columns can have comments in a transaction."
        raise UnsupportedFeature(what, hint="Write COMMENT ON TABLE … IS …")
    names = words.names()
    words.need("IS")
    comment = None if words.words("NULL") else words.string()
    if kind == "TABLE":
        return AlterTable(names, ((SetComment(None, comment), False),))
    if len(names) < 2:
        words.refuse("a column is named behind its table")
    path = names[-1] if "." not in names[-1] else f"`{names[-1]}`"
    return AlterTable(names[:-1], ((SetComment(path, comment), False),))


def _drop(words: Words) -> Command:
    words.need("DROP")
    if not words.words("TABLE"):
        what = "Only tables can be dropped in a transaction."
        raise UnsupportedFeature(what, hint="Drop what else there is outside of it.")
    if_exists = words.words("IF", "EXISTS")
    table = words.names()
    if words.words("PURGE"):
        what = "The files of a dropped table stay until they are vacuumed."
        raise UnsupportedFeature(what, hint="Leave PURGE out, and vacuum afterwards.")
    return DropTable(table, if_exists)


def _truncate(words: Words) -> Command:
    words.need("TRUNCATE")
    words.need("TABLE")
    table = words.names()
    if words.words("PARTITION"):
        what = "TRUNCATE empties whole tables here."
        raise UnsupportedFeature(what, hint="Write DELETE FROM … WHERE, which removes whole files.")
    return TruncateTable(table)


def _show(words: Words) -> Command:
    words.need("SHOW")
    if words.words("TABLES"):
        namespace = ".".join(words.names()) if words.one_of("IN", "FROM") else None
        words.words("LIKE")
        return ShowTables(namespace, words.string() if words.string_next() else None)
    if words.one_of("NAMESPACES", "SCHEMAS", "DATABASES"):
        words.words("LIKE")
        return ShowNamespaces(words.string() if words.string_next() else None)
    if words.words("COLUMNS"):
        table = _behind(words)
        # SHOW COLUMNS IN name IN namespace
        return ShowTable("columns", (*_behind(words), *table) if words.next_is("IN") else table)
    if words.words("TBLPROPERTIES"):
        table = words.names()
        part = None
        if words.words("("):
            part = words.string() if words.string_next() else ".".join(words.names())
            words.need(")")
        return ShowTable("properties", table, part)
    if words.words("CREATE", "TABLE"):
        return ShowTable("create", words.names())
    known = "TABLES, NAMESPACES, COLUMNS, TBLPROPERTIES and CREATE TABLE"
    what = f"SHOW supports only tables here: SHOW {known}."
    raise UnsupportedFeature(what, hint="Run other statements outside of the transaction.")


def _behind(words: Words) -> Parts:
    if words.one_of("IN", "FROM") is None:
        words.refuse("IN is missing")
    return words.names()


def _describe(words: Words) -> Command:
    words.one_of("DESCRIBE", "DESC")
    if words.one_before_name("HISTORY", "DETAIL") is not None:
        what = "A transaction sees one version of a table."
        raise UnsupportedFeature(what, hint="table.history() and `lakeward show` tell of it.")
    others = ("QUERY", "FUNCTION", "DATABASE", "SCHEMA", "NAMESPACE", "CATALOG")
    if words.one_before_name(*others) is not None:
        what = "DESCRIBE supports only tables here."
        raise UnsupportedFeature(what, hint="Run other statements outside of the transaction.")
    words.one_before_name("TABLE")
    kind = "extended" if words.one_before_name("EXTENDED", "FORMATTED") else "describe"
    table = words.names()
    return ShowTable(kind, table, None if words.is_done else words.path())


def _explain(words: Words) -> Command:
    words.need("EXPLAIN")
    mode = words.one_of("EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL") or ""
    return Explain(mode, words.rest("a statement"))


def _setting(words: Words) -> Command:
    text = words.rest("SET")
    parts = text.upper().split()
    if parts[1:2] and parts[1] in ("CATALOG", "ROLE", "VAR", "VARIABLE", "TIME", "PATH"):
        instead = {"TIME": "Statements of a transaction run in UTC."}
        what = f"`{text[:200]}` may not run in a transaction."
        hint = instead.get(parts[1], "Only settings of the session are set here, by name.")
        raise UnsupportedFeature(what, hint=hint, statement=text)
    if text.lower().find(_ZONE) >= 0 and parts[0] == "SET" and "=" in text:
        what = f"`{text[:200]}` may not run in a transaction."
        raise UnsupportedFeature(what, hint="Statements of a transaction run in UTC.")
    return Setting(text)


_ZONE: Final = "spark.sql.session.timezone"
_FIRST: Final[Mapping[str, Callable[[Words], Command]]] = {
    "ALTER": _alter,
    "COMMENT": _comment,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "EXPLAIN": _explain,
    "SET": _setting,
    "RESET": _setting,
}
