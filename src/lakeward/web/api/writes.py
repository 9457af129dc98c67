"""Endpoints that change the lake: create, alter and drop tables, append rows, tag, restore, undo.

An append may have an `Idempotency-Key`, which becomes the id of its transaction: a request that is
sent again with this key gets the result of the first commit and commits nothing. A key belongs to
one caller and one table.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Request, Response
from pydantic import Field

from lakeward.errors import InvalidInput
from lakeward.lake.records import CommitResult
from lakeward.model.roles import Role
from lakeward.web.access import By, needs
from lakeward.web.answers import answer
from lakeward.web.api.body import Body
from lakeward.web.seen import unknown_transaction
from lakeward.web.threads import ChangingRoute
from lakeward.web.uploads import Uploaded

router = APIRouter(prefix="/api/v1", tags=["changes"], route_class=ChangingRoute)
_KEY: Final = re.compile(r"[A-Za-z0-9_-]{8,128}")
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=128)]
Message = Annotated[str | None, Field(max_length=10_000)]


class NewTable(Body):
    """A table to create; the fields are the arguments of `lake.create`."""

    name: Annotated[str, Field(max_length=300)]
    # The name `schema` belongs to pydantic.
    columns: Annotated[str | dict[str, str], Field(alias="schema")]
    format: str = "delta"
    partition_by: list[str] = Field(default_factory=list)
    properties: dict[str, str] = Field(default_factory=dict)
    constraints: dict[str, str] = Field(default_factory=dict)
    comment: str | None = None
    if_not_exists: bool = False


class Renaming(Body):
    """The new name of a table."""

    name: Annotated[str, Field(max_length=300)]


class Changes(Body):
    """Changes of a table; each text is what follows `ALTER TABLE name` in SQL."""

    changes: Annotated[list[str], Field(min_length=1, max_length=1000)]
    message: Message = None


class NewTag(Body):
    """A tag; the fields are the arguments of `lake.tag`."""

    name: Annotated[str, Field(max_length=128)]
    at: str | None = None
    tables: list[str] | None = None
    message: Message = None
    replace: bool = False


class Restoring(Body):
    """A restore; the fields are the arguments of `lake.restore`."""

    at: str
    tables: list[str] | None = None
    dry_run: bool = False
    message: Message = None


class Undoing(Body):
    """An undo; the fields are the arguments of `lake.undo`."""

    transaction_id: Annotated[str, Field(max_length=128)]
    dry_run: bool = False
    message: Message = None


@router.post("/tables", status_code=201)
@needs(Role.WRITER)
def create(request: Request, by: By, body: NewTable) -> Response:
    """Create an empty table."""
    made = by.lake.create(
        by.check(body.name),
        body.columns,
        format=body.format,
        partition_by=body.partition_by,
        properties=body.properties or None,
        constraints=body.constraints or None,
        comment=body.comment,
        if_not_exists=body.if_not_exists,
    )
    return answer(request, made.at().details(), status=201)


@router.delete("/tables/{table}")
@needs(Role.ADMIN)
def drop(request: Request, by: By, table: str) -> Response:
    """Drop a table. Its files stay until they are vacuumed; until then `undrop` restores it."""
    by.lake.drop(table)
    return answer(request, {"table": table, "dropped": True})


@router.post("/tables/{table}/rename")
@needs(Role.ADMIN)
def rename(request: Request, by: By, table: str, body: Renaming) -> Response:
    """Rename a table; it keeps its files, its history and its id."""
    made = by.lake.rename(table, by.check(body.name))
    return answer(request, made.at().details())


@router.post("/tables/{table}/undrop")
@needs(Role.ADMIN)
def undrop(request: Request, by: By, table: str) -> Response:
    """Restore a dropped table, unless its files were vacuumed."""
    by.lake.undrop(table)
    return answer(request, by.table(table).at().details())


@router.post("/tables/{table}/alter")
@needs(Role.WRITER)
def alter(request: Request, by: By, table: str, body: Changes) -> Response:
    """Change columns, properties and constraints of a table, all in one version."""
    asked = by.table(table).alter(message=body.message)
    for change in body.changes:
        asked.sql(change)
    # A foreign key tells which keys the other table has.
    by.check_all(asked.references, Role.READER)
    return answer(request, asked.commit())


@router.post("/tables/{table}/rows")
@needs(Role.WRITER)
def append(
    request: Request,
    by: By,
    table: str,
    rows: Uploaded,
    key: Key = None,
    x_lakeward_message: Annotated[str | None, Header(max_length=1000)] = None,
) -> Response:
    """Append rows: an Arrow IPC stream or a Parquet file as the body of the request."""
    by.table(table)
    if key is None:
        with rows.reader() as reader, by.lake.transaction(message=x_lakeward_message) as tx:
            tx.append(table, reader)
        return answer(request, tx.commit())
    if not _KEY.fullmatch(key):
        what = "The Idempotency-Key has not the form of one."
        raise InvalidInput(what, hint="Use 8 to 128 letters, digits, '_' and '-'.")
    digest = rows.digest()
    with rows.reader() as reader:
        done = by.lake.append_once(
            table, reader, key=key, message=x_lakeward_message, digest=digest
        )
    return answer(request, done)


@router.post("/tags", status_code=201)
@needs(Role.WRITER)
def tag(request: Request, by: By, body: NewTag) -> Response:
    """Create a tag: a name for one consistent cut over all tables or some."""
    tables = body.tables
    if tables is None:
        by.check_everything()
    else:
        # The names of a cut are those of its time; access is by the names of now.
        now = by.lake.snapshot(at=body.at).names_now
        by.check_all(now.get(name, name) for name in tables)
    if body.replace and not by.sees_everything:
        # A tag keeps versions from being vacuumed, so it is moved by those who see its tables.
        for known in by.lake.tags():
            if known.name == body.name:
                by.check_hidden(known.names_now.values(), f"Tag {body.name}")
                by.check_all(known.names_now.values())
    made = by.lake.tag(
        body.name,
        at=body.at,
        tables=tables,
        message=body.message,
        replace=body.replace,
    )
    return answer(request, made, status=201)


@router.delete("/tags/{name}")
@needs(Role.ADMIN, everything=True)
def untag(request: Request, by: By, name: str) -> Response:
    """Delete a tag; it no longer protects its versions from vacuum."""
    by.lake.untag(name)
    return answer(request, {"tag": name, "dropped": True})


@router.post("/restore")
@needs(Role.ADMIN)
def restore(request: Request, by: By, body: Restoring) -> Response:
    """Restore all tables, or some, to one consistent cut, in one transaction."""
    tables = by.check_all(body.tables)
    if body.dry_run:
        return answer(request, by.lake.restore(at=body.at, tables=tables, dry_run=True))
    done = by.lake.restore(at=body.at, tables=tables, message=body.message)
    return answer(request, {**_facts(done), "revision": done.value})


@router.post("/undo")
@needs(Role.ADMIN)
def undo(request: Request, by: By, body: Undoing) -> Response:
    """Undo the changes of one transaction in all its tables; keep later changes."""
    names = by.lake.transaction_record(body.transaction_id).names_now.values()
    if not any(map(by.sees, names)):
        raise unknown_transaction(body.transaction_id)
    by.check_hidden(names, f"Transaction {body.transaction_id}")
    by.check_all(names)
    if body.dry_run:
        return answer(request, by.lake.undo(body.transaction_id, dry_run=True))
    done = by.lake.undo(body.transaction_id, message=body.message)
    return answer(request, {**_facts(done), "revision": done.value})


def _facts(done: CommitResult) -> dict[str, Any]:
    return {"transaction_id": done.transaction_id, "versions": dict(done.versions)}
