"""Pages of one table: history, comparison of versions, schemas, policy, quality, rows, layout."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from lakeward.model.roles import Role
from lakeward.web.access import By, needs
from lakeward.web.answers import Cursor
from lakeward.web.charts import heat, line
from lakeward.web.differences import Kind, counts, file_page, with_first_files
from lakeward.web.examining import Examinations
from lakeward.web.pages.rendering import page, part
from lakeward.web.places import SnapshotAt
from lakeward.web.threads import ChangingRoute

router = APIRouter(prefix="/tables", include_in_schema=False, route_class=ChangingRoute)
_VERSIONS = 50
_ROWS = 50
_FILES = 100
_POINTS = 200
_PARTITIONS = 400
_FILES_OF_PAGE = 500
_CHANGED = 200
Version = Annotated[int | None, Query(ge=0)]
From = Annotated[int | None, Query(ge=0, alias="from")]
To = Annotated[int | None, Query(ge=0, alias="to")]


@router.get("/{table}")
@needs(Role.READER)
def history(request: Request, by: By, table: str, until: Version = None) -> Response:
    """Show the table's versions as a timeline, newest first."""
    source = by.table(table)
    found = source.history(limit=_VERSIONS + 1, until=until)
    records = {
        "table": source.at().details(),
        "versions": found[:_VERSIONS],
        "next": found[_VERSIONS].version if len(found) > _VERSIONS else None,
    }
    return page(request, "history", records)


@router.get("/{table}/compare")
@needs(Role.READER)
def compare(
    request: Request,
    by: By,
    table: str,
    before: From = None,
    after: To = None,
    rows: bool = False,
) -> Response:
    """Compare two versions: columns, properties, partitions, files; rows only if requested."""
    source = by.table(table)
    details = source.at().details()
    found = source.diff(*_versions(details.version, before, after), rows=rows, sample=20)
    record = {**with_first_files(found, _FILES), "rows": None}
    shown = {
        "table": details,
        "diff": record,
        "counts": counts(found, _CHANGED) if found.is_small else None,
    }
    return page(request, "compare", shown, verbatim={"row_diff": found.rows})


@router.get("/{table}/compare/counts")
@needs(Role.READER)
def compare_counts(
    request: Request, by: By, table: str, before: From = None, after: To = None
) -> Response:
    """Show how many rows changed between two versions, and what changed in each partition.

    The page that compares versions with many changed files loads this part of it later.
    """
    source = by.table(table)
    details = source.at().details()
    found = source.diff(*_versions(details.version, before, after))
    records = {
        "table": details,
        "diff": with_first_files(found, 0),
        "counts": counts(found, _CHANGED),
    }
    return page(request, "compare_counts", records)


@router.get("/{table}/compare/files")
@needs(Role.READER)
def compare_files(
    request: Request,
    by: By,
    table: str,
    before: From = None,
    after: To = None,
    kind: Kind = "added",
    cursor: Cursor = None,
) -> Response:
    """Show the files that were added or removed between two versions, page by page."""
    source = by.table(table)
    details = source.at().details()
    found = source.diff(*_versions(details.version, before, after))
    versions = {"from_version": found.from_version, "to_version": found.to_version}
    listed = file_page(found, kind, cursor, _FILES_OF_PAGE)
    return page(request, "compare_files", {"table": details, **versions, **listed})


@router.get("/{table}/schema")
@needs(Role.READER)
def schema(request: Request, by: By, table: str) -> Response:
    """Show the columns now, and every schema that the table had."""
    source = by.table(table)
    records = {"table": source.at().details(), "schemas": source.schemas()}
    return page(request, "schema", records)


@router.get("/{table}/policy")
@needs(Role.READER)
def policy(request: Request, by: By, table: str) -> Response:
    """Show the effective policy, constraints, properties, retention and recent violations."""
    source = by.table(table)
    records = {
        "table": source.at().details(),
        "effective": by.lake.policy(table),
        "retention": source.retention(),
        "violations": by.lake.violations(table=table, limit=20),
    }
    return page(request, "policy", records)


@router.get("/{table}/quality")
@needs(Role.READER)
def quality(request: Request, by: By, table: str) -> Response:
    """Show measured expectations over versions, growth of the table, and violations."""
    source = by.table(table)
    found, growth = source.quality(measure=False), source.growth(limit=_POINTS)
    records = {
        "table": source.at().details(),
        "quality": found,
        "growth": growth,
        "violations": by.lake.violations(table=table, limit=20),
        "lines": {n: line([m.value for m in series]) for n, series in found.series.items()},
        "lines_of": {
            "rows": line([g.rows for g in growth]),
            "files": line([g.files for g in growth]),
            "bytes": line([g.bytes for g in growth]),
        },
    }
    return page(request, "quality", records)


@router.get("/{table}/rows")
@needs(Role.READER)
def rows(
    request: Request,
    by: By,
    table: str,
    at: SnapshotAt,
    where: Annotated[str, Query(max_length=10_000)] = "",
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
) -> Response:
    """Show a page of the rows of any version, or of those that match a condition."""
    found = at.of(by.table(table))
    shown = found.page(where=where or None, offset=offset, limit=_ROWS)
    records: dict[str, Any] = {"table": found.details(), "where": where, "offset": offset}
    return page(request, "rows", records, verbatim={"page": shown})


@router.get("/{table}/layout")
@needs(Role.READER)
def layout(request: Request, by: By, table: str) -> Response:
    """Show how many files have which size, from the store alone."""
    source = by.table(table)
    records = {"table": source.at().details(), "sizes": source.file_sizes()}
    return page(request, "layout", records)


@router.get("/{table}/health")
@needs(Role.READER)
def health(request: Request, by: By, table: str) -> Response:
    """Show the layout's score, its reasons, the partitions, and what `optimize` would do.

    Of a table with very many files, the page shows the last version that was examined.
    """
    source = by.table(table)
    details = source.at().details()
    examinations: Examinations = request.app.state.examinations
    found = examinations.of(source)
    # The partitions are sorted, worst first.
    parts = () if found is None else found.health.partitions[:_PARTITIONS]
    records = {
        "table": details,
        "health": None if found is None else found.health,
        "maps": {
            "size": heat([(p.partition, p.bytes) for p in parts]),
            "files": heat([(p.partition, p.files) for p in parts]),
            "deleted rows": heat([(p.partition, p.deleted_rows) for p in parts]),
        },
        "plan": None if found is None else found.plan,
        "is_newest": found is not None and found.health.version >= details.version,
        "may_optimize": by.may_with(table, Role.ADMIN),
    }
    return page(request, "table_health", records)


@router.post("/{table}/optimize")
@needs(Role.ADMIN)
def optimize(by: By, table: str) -> Response:
    """Compact small files, as planned on the page of the table's health, and show the run."""
    by.table(table).optimize(budget="10m")
    return RedirectResponse(f"/jobs?table={part(table)}", 303)


def _versions(newest: int, before: int | None, after: int | None) -> tuple[int, int]:
    """Return the versions to compare: by default the newest one with the one before it."""
    last = newest if after is None else after
    return (max(0, last - 1) if before is None else before), last
