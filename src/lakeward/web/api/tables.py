"""Endpoints that describe tables: lists, details, history, diffs, schemas, files, health."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from lakeward.lake.records import Diff
from lakeward.model.arguments import LARGEST
from lakeward.model.file import LoggedFile, deleted_rows
from lakeward.model.names import TableName
from lakeward.model.parameter_values import of_texts
from lakeward.model.roles import Role
from lakeward.web.access import By, Caller, needs
from lakeward.web.answers import Cursor, Limit, Param, answer, cursor_of, place_of
from lakeward.web.differences import Kind, counts, file_page, with_first_files
from lakeward.web.examining import Examinations
from lakeward.web.lineage import seen_lineage
from lakeward.web.lists import page_after
from lakeward.web.places import SnapshotAt

router = APIRouter(prefix="/api/v1/tables", tags=["tables"])
Version = Annotated[int | None, Query(ge=-LARGEST, le=LARGEST)]
From = Annotated[int | None, Query(ge=-LARGEST, le=LARGEST, alias="from")]
To = Annotated[int | None, Query(ge=-LARGEST, le=LARGEST, alias="to")]
_PARTITIONS = 1000
Where = Annotated[str | None, Query(max_length=10_000, description="A SQL condition.")]


@router.get("")
@needs(Role.READER)
def tables(
    request: Request,
    by: By,
    search: Annotated[str | None, Query(max_length=200, description="A part of the name.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """List the tables that the caller has access to, by name, with format, version and size."""
    place = place_of(cursor, after=str)
    names = [t for t in by.tables() if search is None or search.lower() in t.name.lower()]
    # As the store sorts them: by namespace, then by name.
    names.sort(key=lambda t: TableName.parse(t.name))
    if place is not None:
        last = TableName.parse(place["after"])
        names = [t for t in names if TableName.parse(t.name) > last]
    shown = [t.at().info() for t in names[:limit]]
    more = cursor_of(after=shown[-1].name) if len(names) > limit else None
    return answer(request, {"tables": shown, "next": more})


@router.get("/{table}")
@needs(Role.READER)
def table(request: Request, by: By, table: str, at: SnapshotAt) -> Response:
    """Show a table's columns, checks, properties and size, now or at an earlier time."""
    return answer(request, at.of(by.table(table)).details())


@router.get("/{table}/definition")
@needs(Role.READER)
def definition(request: Request, by: By, table: str, at: SnapshotAt) -> Response:
    """Show a version's definition as the log has it: fields with ids, and what is derived."""
    return answer(request, at.of(by.table(table)).definition.to_json())


@router.get("/{table}/count")
@needs(Role.READER)
def count(
    request: Request,
    by: By,
    table: str,
    at: SnapshotAt,
    where: Where = None,
    param: Param = None,
) -> Response:
    """Count the rows of a version, or those that match a condition, from the log if possible."""
    found = at.of(by.table(table))
    facts = {"table": table, "version": found.version}
    return answer(request, {**facts, "count": found.count(where, params=of_texts(param))})


@router.get("/{table}/history")
@needs(Role.READER)
def history(
    request: Request,
    by: By,
    table: str,
    since: Version = None,
    until: Version = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """List a table's versions, newest first: who did what, when and why."""
    place = place_of(cursor, until=int)
    newest = until if place is None else place["until"]
    found = by.table(table).history(limit=limit + 1, since=since, until=newest)
    more = cursor_of(until=found[limit].version) if len(found) > limit else None
    return answer(request, {"table": table, "versions": found[:limit], "next": more})


@router.get("/{table}/diff")
@needs(Role.READER)
def diff(
    request: Request,
    by: By,
    table: str,
    before: From = None,
    after: To = None,
    rows: bool = False,
    key: Annotated[list[str] | None, Query(description="Columns that tell rows apart.")] = None,
    sample: Annotated[int, Query(ge=0, le=100)] = 20,
    files: Annotated[
        int | None,
        Query(ge=0, le=1000, description="At most so many added and removed files; all if absent."),
    ] = None,
) -> Response:
    """Compare two versions: files, partitions, schema and properties; with `rows` the rows too."""
    found = _diff(by, table, before, after, rows=rows, key=key, sample=sample)
    if files is None:
        return answer(request, found)
    return answer(request, {**with_first_files(found, files), **counts(found, _PARTITIONS)})


@router.get("/{table}/diff/files")
@needs(Role.READER)
def diff_files(
    request: Request,
    by: By,
    table: str,
    before: From = None,
    after: To = None,
    kind: Kind = "added",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """List the files that were added, or removed, between two versions, in pages."""
    found = _diff(by, table, before, after)
    versions = {"from_version": found.from_version, "to_version": found.to_version}
    return answer(request, {"table": table, **versions, **file_page(found, kind, cursor, limit)})


@router.get("/{table}/schemas")
@needs(Role.READER)
def schemas(request: Request, by: By, table: str, version: Version = None) -> Response:
    """List the schemas that a table had, oldest first; with `version` only that version's."""
    source = by.table(table)
    found = source.schemas()
    if version is not None:
        at = source.at(version=version).version
        found = [one for one in found if one.has(at)]
    return answer(request, {"table": table, "schemas": found})


@router.get("/{table}/files")
@needs(Role.READER)
def files(
    request: Request,
    by: By,
    table: str,
    at: SnapshotAt,
    where: Where = None,
    param: Param = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """List the files of a version, or only those that may have a matching row."""
    place = place_of(cursor, version=int, offset=int)
    found = at.of(by.table(table), place)
    offset = 0 if place is None else place["offset"]
    listed = found.files(where=where, params=of_texts(param))
    shown = [_file(one) for one in listed[offset : offset + limit]]
    rest = offset + limit < len(listed)
    more = cursor_of(version=found.version, offset=offset + limit) if rest else None
    facts = {"table": table, "version": found.version, "count": len(listed)}
    return answer(request, {**facts, "files": shown, "next": more})


@router.get("/{table}/health")
@needs(Role.READER)
def health(request: Request, by: By, table: str) -> Response:
    """Score the layout of a table's files: 100 at best, with reasons and how to fix them.

    A table with very many files is examined in the background: the response has the last version
    that was examined (`version`), or, if there is none yet, status 202 and `Retry-After`.
    """
    source = by.table(table)
    examinations: Examinations = request.app.state.examinations
    if not examinations.has_many_files(source):
        return answer(request, source.health())
    found = examinations.of(source)
    if found is not None:
        return answer(request, found.health)
    waiting = answer(request, {"table": source.name, "health": None}, status=202)
    waiting.headers["retry-after"] = "1"
    return waiting


@router.get("/{table}/file-sizes")
@needs(Role.READER)
def file_sizes(request: Request, by: By, table: str) -> Response:
    """Count the files of a table by their size."""
    return answer(request, {"table": table, "sizes": by.table(table).file_sizes()})


@router.get("/{table}/policy")
@needs(Role.READER)
def policy(request: Request, by: By, table: str) -> Response:
    """Show the effective policy of a table, and where each of its fields comes from."""
    by.table(table)
    return answer(request, by.lake.policy(table))


@router.get("/{table}/lineage")
@needs(Role.READER)
def lineage(
    request: Request,
    by: By,
    table: str,
    direction: Literal["upstream", "downstream"] = "upstream",
    column: Annotated[str | None, Query(max_length=300)] = None,
    depth: Annotated[int | None, Query(ge=1, le=100)] = None,
) -> Response:
    """Show the sources of a table or a column, or what is computed from it, over all steps."""
    found = by.table(table).lineage(direction=direction, column=column, depth=depth)
    return answer(request, seen_lineage(by, found))


@router.get("/{table}/quality")
@needs(Role.READER)
def quality(request: Request, by: By, table: str) -> Response:
    """Show the last measured values of a table's expectations, and values of earlier versions."""
    return answer(request, by.table(table).quality(measure=False))


@router.get("/{table}/growth")
@needs(Role.READER)
def growth(request: Request, by: By, table: str, limit: Limit = 100) -> Response:
    """List rows, files and bytes after each of the newest versions, oldest first."""
    return answer(request, {"table": table, "versions": by.table(table).growth(limit=limit)})


@router.get("/{table}/retention")
@needs(Role.READER)
def retention(request: Request, by: By, table: str) -> Response:
    """Show how far back a table can be read."""
    return answer(request, by.table(table).retention())


@router.get("/{table}/audit")
@needs(Role.READER)
def audit(
    request: Request, by: By, table: str, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """List who did what to a table, newest first."""
    by.table(table)

    def read(until: str | None, count: int) -> list[Any]:
        return by.lake.audit(table=table, until=until, limit=count)

    found, more = page_after(read, cursor, limit)
    return answer(request, {"table": table, "entries": found, "next": more})


def _diff(by: Caller, table: str, before: int | None, after: int | None, **options: Any) -> Diff:
    """Compare two versions, by default the newest one with the one before it."""
    source = by.table(table)
    newest = source.version
    first = max(0, newest - 1) if before is None else before
    return source.diff(first, newest if after is None else after, **options)


def _file(source: LoggedFile) -> dict[str, Any]:
    """Return a file, with its partition values by field id and how many of its rows are deleted."""
    return {
        "path": source.path,
        "bytes": source.size,
        "rows": source.rows,
        "deleted_rows": deleted_rows(source.file.deletion_vector),
        "partition": source.partition,
        "added": source.added,
        "ordinal": source.ordinal,
        "modified_ms": source.file.modified_ms,
    }
