"""The pages with the overview of the lake, the search, and the health of all tables."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from lakeward.errors import NotFound
from lakeward.model.roles import Role
from lakeward.web.access import By, Caller, needs
from lakeward.web.examining import Examinations
from lakeward.web.pages.rendering import page
from lakeward.web.pages.viewed import viewed
from lakeward.web.seen import seen_changes, seen_jobs, seen_tags, seen_transactions

router = APIRouter(include_in_schema=False)
_TABLES = 50
_FOUND = 50
_TODAY = 10
Text = Annotated[str, Query(max_length=200)]


@router.get("/")
@needs(Role.READER)
def overview(request: Request, by: By, q: Text = "", after: Text = "") -> Response:
    """Show tables, those viewed last, what changed today, newest transactions, and maintenance."""
    visible = by.tables()
    tables = [t for t in visible if q.lower() in t.name.lower()]
    rest = [t for t in tables if t.name > after]
    rest.sort(key=lambda t: t.name)
    shown = [t.at().info() for t in rest[:_TABLES]]
    records = {
        "tables": shown,
        "count": len(tables),
        "next": shown[-1].name if len(rest) > _TABLES else None,
        "viewed": viewed(request, {t.name for t in visible}),
        "today": seen_changes(by, _TODAY),
        "transactions": seen_transactions(by, 10),
        "jobs": seen_jobs(by, limit=5),
        "q": q,
    }
    return page(request, "overview", records)


@router.get("/search")
@needs(Role.READER)
def search(request: Request, by: By, q: Text = "") -> Response:
    """Show tables, columns and tags whose names contain a text, and the transaction of this id."""
    found = _found(by, q.strip()) if q.strip() else []
    return page(request, "search", {"q": q, "found": found[:_FOUND], "count": len(found)})


@router.get("/health")
@needs(Role.READER)
def health(request: Request, by: By) -> Response:
    """Show the health of all tables' file layouts, worst first.

    Of tables with very many files, the page shows the last version that was examined.
    """
    examinations: Examinations = request.app.state.examinations
    found, pending = [], []
    for table in by.tables():
        if not examinations.has_many_files(table):
            found.append(table.health())
        elif (known := examinations.of(table)) is not None:
            found.append(known.health)
        else:
            pending.append(table.name)
    found.sort(key=lambda h: (h.score, h.table))
    records = {"health": found[:_FOUND], "count": len(found), "pending": pending[:_FOUND]}
    return page(request, "health", records)


def _found(by: Caller, text: str) -> list[dict[str, Any]]:
    low = text.lower()
    # One cut reads all tables at once, and has the columns of one that is dropped meanwhile.
    tables = [table for table in by.lake.snapshot() if by.sees(table.name)]
    out = [{"kind": "table", "name": t.name} for t in tables if low in t.name.lower()]
    for table in tables:
        columns = (c for c in table.schema.names if low in c.lower())
        out += [{"kind": "column", "name": c, "table": table.name} for c in columns]
    out += [{"kind": "tag", "name": t.name} for t in seen_tags(by) if low in t.name.lower()]
    try:
        record = by.lake.transaction_record(text)
    except NotFound:
        return out
    if by.sees_everything or any(map(by.sees, record.names_now.values())):
        out.append({"kind": "transaction", "name": record.transaction_id})
    return out
