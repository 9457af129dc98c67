"""Pages that show the lineage of the whole lake or of one table as a graph."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from lakeward.lake.records import Lineage, TableDetails
from lakeward.model.roles import Role
from lakeward.web.access import By, needs
from lakeward.web.lineage import drawing, seen_lineage
from lakeward.web.pages.rendering import page

router = APIRouter(include_in_schema=False)
_EDGES = 500
Direction = Literal["upstream", "downstream"]


@router.get("/lineage")
@needs(Role.READER)
def lineage(request: Request, by: By) -> Response:
    """Show which tables of the lake are computed from which."""
    return _shown(request, seen_lineage(by, by.lake.lineage()), None)


@router.get("/tables/{table}/lineage")
@needs(Role.READER)
def of_table(
    request: Request,
    by: By,
    table: str,
    direction: Direction = "upstream",
    column: Annotated[str | None, Query(max_length=300)] = None,
) -> Response:
    """Show the sources of a table, or what is computed from it, over all steps."""
    source = by.table(table)
    found = seen_lineage(by, source.lineage(direction=direction, column=column or None))
    return _shown(request, found, source.at().details())


def _shown(request: Request, found: Lineage, table: TableDetails | None) -> Response:
    edges = found.edges[:_EDGES]
    records = {
        "table": table,
        "direction": found.direction,
        "edges": edges,
        "columns": found.columns[:_EDGES],
        "drawing": drawing(edges),
    }
    return page(request, "lineage", records)
