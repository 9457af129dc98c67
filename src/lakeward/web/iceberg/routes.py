"""The endpoints of Iceberg's REST protocol that the lake answers.

Only Iceberg tables are listed: a Delta table would have to be shown as something that it is not.
Metadata is answered as it is, with the full names of files, because clients read them themselves.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Header, Request, Response

from lakeward.errors import InvalidInput, NotFound
from lakeward.model.names import TableName
from lakeward.model.roles import Role
from lakeward.web.access import By, Caller, needs
from lakeward.web.answers import JSON, encoded

router = APIRouter(prefix="/iceberg/v1", include_in_schema=False)
_LEVELS: Final = "\x1f"
_ENDPOINTS: Final = (
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/transactions/commit",
)
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=128)]


@router.get("/config")
@needs(Role.READER)
def config() -> Response:
    """List the endpoints that the catalog supports."""
    return _answer({"defaults": {}, "overrides": {}, "endpoints": list(_ENDPOINTS)})


@router.get("/namespaces")
@needs(Role.READER)
def namespaces(by: By, parent: str | None = None) -> Response:
    """List the namespaces that have tables open to the caller; there is one level of them."""
    found = [] if parent else [[name] for name in _namespaces(by)]
    return _answer({"namespaces": found})


@router.post("/namespaces")
@needs(Role.WRITER)
async def create_namespace(request: Request, by: By) -> Response:
    """Create a namespace."""
    body = await _body(request)
    levels = body.get("namespace")
    if not isinstance(levels, list) or len(levels) != 1 or not isinstance(levels[0], str):
        raise InvalidInput("Namespaces of the lake have one level.")  # noqa: EM101
    by.check(f"{levels[0]}.t")
    by.lake.iceberg_catalog().create_namespace(levels[0])
    return _answer({"namespace": levels, "properties": {}})


@router.api_route("/namespaces/{namespace}", methods=["GET", "HEAD"])
@needs(Role.READER)
def namespace(request: Request, by: By, namespace: str) -> Response:
    """Show a namespace; it has no properties."""
    _check_namespace(by, namespace)
    if request.method == "HEAD":
        return Response(status_code=204)
    return _answer({"namespace": [namespace], "properties": {}})


@router.get("/namespaces/{namespace}/tables")
@needs(Role.READER)
def tables(by: By, namespace: str) -> Response:
    """List the Iceberg tables of a namespace that are open to the caller."""
    _check_namespace(by, namespace)
    found = by.lake.iceberg_catalog().tables(namespace)
    shown = [{"namespace": [namespace], "name": n.name} for n in found if by.sees(str(n))]
    return _answer({"identifiers": shown})


@router.post("/namespaces/{namespace}/tables")
@needs(Role.WRITER)
async def create(request: Request, by: By, namespace: str) -> Response:
    """Create an empty table."""
    body = await _body(request)
    by.check(str(TableName.parse(f"{namespace}.{body.get('name')}")))

    def made() -> dict[str, Any]:
        from lakeward.lake.rest_catalog import is_staged

        lake_catalog = by.lake.iceberg_catalog()
        if is_staged(body):
            return lake_catalog.stage(namespace, body)
        return lake_catalog.load(lake_catalog.create(namespace, body))

    return _answer(await _in_thread(made))


@router.post("/namespaces/{namespace}/register")
@needs(Role.ADMIN, everything=True)
async def register(request: Request, by: By, namespace: str) -> Response:
    """Take a table into the lake that exists as a metadata file, which can be any that it reads."""
    body = await _body(request)

    def made() -> dict[str, Any]:
        lake_catalog = by.lake.iceberg_catalog()
        return lake_catalog.load(lake_catalog.register(namespace, body, by.lake.adopt))

    return _answer(await _in_thread(made))


@router.api_route("/namespaces/{namespace}/tables/{iceberg_table}", methods=["GET", "HEAD"])
@needs(Role.READER)
def load(request: Request, by: By, namespace: str, iceberg_table: str) -> Response:
    """Load a table's metadata."""
    loaded = by.lake.iceberg_catalog().load(_name(by, namespace, iceberg_table))
    return Response(status_code=204) if request.method == "HEAD" else _answer(loaded)


@router.post("/namespaces/{namespace}/tables/{iceberg_table}")
@needs(Role.WRITER)
async def commit(
    request: Request, by: By, namespace: str, iceberg_table: str, key: Key = None
) -> Response:
    """Commit changes of one table."""
    body = await _body(request)

    def done() -> dict[str, Any]:
        from lakeward.lake.rest_catalog import parse_commit

        name, lake_catalog = _name(by, namespace, iceberg_table), by.lake.iceberg_catalog()
        asked = parse_commit(body, (tuple(namespace.split(_LEVELS)), iceberg_table))
        lake_catalog.commit([asked], transaction_id=key)
        return lake_catalog.load(name)

    return _answer(await _in_thread(done))


@router.delete("/namespaces/{namespace}/tables/{iceberg_table}")
@needs(Role.ADMIN)
def drop(by: By, namespace: str, iceberg_table: str) -> Response:
    """Drop a table. Its files stay until they are vacuumed."""
    lake_catalog, name = by.lake.iceberg_catalog(), _name(by, namespace, iceberg_table)
    lake_catalog.load(name)
    by.lake.drop(str(name))
    return Response(status_code=204)


@router.post("/transactions/commit")
@needs(Role.WRITER)
async def commit_several(request: Request, by: By, key: Key = None) -> Response:
    """Commit rows of several tables as one transaction: all of them, or none."""
    body = await _body(request)
    changes = body.get("table-changes")
    if not isinstance(changes, list) or not changes:
        raise InvalidInput("The request has no `table-changes`.")  # noqa: EM101

    def done() -> None:
        from lakeward.lake.rest_catalog import parse_commit

        asked = [parse_commit(change) for change in changes]
        lake_catalog = by.lake.iceberg_catalog()
        for one in asked:
            by.check(str(lake_catalog.name_of(one.namespace, one.name)))
        lake_catalog.commit(asked, transaction_id=key)

    await _in_thread(done)
    return Response(status_code=204)


def _namespaces(by: Caller) -> list[str]:
    lake_catalog = by.lake.iceberg_catalog()
    every = lake_catalog.namespaces()
    if by.sees_everything:
        return every
    return [n for n in every if any(by.sees(str(t)) for t in lake_catalog.tables(n))]


def _check_namespace(by: Caller, namespace: str) -> None:
    if namespace not in _namespaces(by):
        what = f"The lake has no namespace {namespace}, or it is not open to you."
        raise NotFound(what, namespace=namespace)


def _name(by: Caller, namespace: str, name: str) -> TableName:
    found = by.lake.iceberg_catalog().name_of(namespace.split(_LEVELS), name)
    by.check(str(found))
    return found


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = orjson.loads(await request.body())
    except orjson.JSONDecodeError as error:
        raise InvalidInput("The body is no JSON.") from error  # noqa: EM101
    if not isinstance(body, dict):
        raise InvalidInput("The body is no JSON object.")  # noqa: EM101
    return body


async def _in_thread(work: Any) -> Any:
    """Run a call of the lake in a thread, outside of the event loop."""
    from starlette.concurrency import run_in_threadpool

    return await run_in_threadpool(work)


def _answer(body: dict[str, Any]) -> Response:
    return Response(encoded(body), media_type=JSON)
