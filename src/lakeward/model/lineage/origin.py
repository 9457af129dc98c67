"""The sources of the rows that an operation is given: a DataFrame of Spark, a table, a view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from lakeward.model.lineage.query import Ref

ROWS: Final = "lakeward rows"
"""The name under which a statement reads the rows of an origin. No table can have it."""
MARK: Final = "lakeward table "
"""The prefix of a table's name in the alias of a Spark DataFrame with the rows of that table."""
_MOST_FILES: Final = 1000

Versions: TypeAlias = Mapping[str, tuple[int, int]]
"""Tables by name, each with its id and version; the id is 0 for a table of the transaction."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rows come from.

    Attributes:
        columns: For each column of the rows, the source columns that its values are computed from;
            None if they are not known.
        rows: The source columns that decide which rows exist.
        tables: The tables among the sources.
        files: The files among the sources: the name of each source of files, with its paths.
        memory: Whether some of the rows come from the memory of a program.
        query: The text and the dialect of the query that returned the rows. It replaces `columns`
            until lineage is read: see `analysed_origin`.
    """

    columns: Mapping[str, frozenset[Ref]] | None
    rows: frozenset[Ref] = frozenset()
    tables: Versions = field(default_factory=dict)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    memory: bool = False
    query: tuple[str, str] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all sources are known, each column by column."""
        return not self.memory and (self.columns is not None or self.query is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the origin as JSON values; tables are listed by name alone."""
        names = [*self.tables, *self.files]
        numbers = {name: number for number, name in enumerate(names)}
        body: dict[str, Any] = {"tables": list(self.tables), "files": dict(self.files)}
        if self.memory:
            body["memory"] = True
        if self.query is not None:
            body["query"] = list(self.query)
        if self.columns is not None:
            own = self.columns.items()
            body["columns"] = {name: _numbered(refs, numbers) for name, refs in own}
            body["rows"] = _numbered(self.rows, numbers)
        return body

    @classmethod
    def of_json(cls, body: Mapping[str, Any], tables: Versions) -> Origin:
        """Return the origin for the values of `to_json`, with the versions of its tables."""
        names = [*body["tables"], *body["files"]]
        columns, query = body.get("columns"), body.get("query")
        return cls(
            None if columns is None else {c: _named(refs, names) for c, refs in columns.items()},
            _named(body.get("rows", ()), names),
            {name: tables[name] for name in body["tables"]},
            {name: tuple(paths) for name, paths in body["files"].items()},
            bool(body.get("memory")),
            None if query is None else (query[0], query[1]),
        )


def of_table(name: str, version: tuple[int, int], columns: Iterable[str]) -> Origin:
    """Return the origin of rows that were read from a version of a table."""
    own = {column: frozenset({(name, column)}) for column in columns}
    return Origin(own, frozenset({(name, "")}), {name: version})


def of_query(text: str, dialect: str, tables: Versions) -> Origin:
    """Return the origin of rows that a query over tables returns."""
    return Origin(None, tables=tables, query=(text, dialect))


def without_credentials(place: str) -> str:
    """Return an address without its user and password, and without parameters such as `?sig=…`.

    A path is returned unchanged, and so is a question mark in a pattern.
    """
    scheme, mark, rest = place.partition("://")
    if not mark:
        return place
    path, _, query = rest.partition("?")
    host, slash, below = (path if "=" in query else rest).partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{below}"


def of_files(paths: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the name of a source of files, and the paths to record for it.

    The name of one file is its path, that of several their common directory. For more than a
    thousand files, only the directory is recorded. Credentials in addresses are left out.
    """
    paths = [without_credentials(path) for path in paths]
    if len(paths) == 1:
        return paths[0], (paths[0],)
    parts = [path.split("/") for path in paths]
    shared = []
    for together in zip(*parts, strict=False):
        if len(set(together)) > 1:
            break
        shared.append(together[0])
    place = "/".join(shared) or "/"
    return place, tuple(paths) if len(paths) <= _MOST_FILES else (place,)


def _numbered(refs: Iterable[Ref], numbers: Mapping[str, int]) -> list[list[Any]]:
    return [[numbers[source], column] for source, column in sorted(refs)]


def _named(refs: Iterable[Sequence[Any]], names: Sequence[str]) -> frozenset[Ref]:
    return frozenset((names[number], column) for number, column in refs)
