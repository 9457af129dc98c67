"""Endpoints of the Iceberg REST catalog for tables: create, load, commit, rename and drop.

Only Iceberg tables are served, because Delta tables have no Iceberg metadata.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from lakeward.errors import InvalidInput
from lakeward.model.namespaces import DEFAULT, levels_of
from lakeward.model.roles import Role
from lakeward.web.access import By, Caller, needs
from lakeward.web.iceberg.namespaces import Size, Token, check_open
from lakeward.web.iceberg.requests import (
    PREFIX,
    Body,
    Key,
    ScanBody,
    answer,
    identified,
    levels,
    name_of,
    namespace_of,
    nothing,
    page,
)
from lakeward.web.iceberg.signing import Delegation, delegated
from lakeward.web.threads import ChangingRoute

router = APIRouter(prefix=PREFIX, tags=["iceberg"], route_class=ChangingRoute)


@router.get("/namespaces/{namespace}/tables")
@needs(Role.READER)
def tables(by: By, namespace: str, size: Size = None, token: Token = None) -> Response:
    """List the Iceberg tables of a namespace that the caller has access to."""
    inside, catalog = check_open(by, namespace), by.lake.iceberg_catalog()
    catalog.namespace(inside)
    seen = [name for name in catalog.tables(inside) if by.sees(str(name))]
    shown, more = page(seen, size, token, lambda name: name.name)
    found = [{"namespace": levels_of(inside), "name": name.name} for name in shown]
    return answer({"identifiers": found, "next-page-token": more})


@router.post("/namespaces/{namespace}/tables")
@needs(Role.WRITER)
def create(by: By, namespace: str, body: Body, key: Key, access: Delegation = None) -> Response:
    """Create an empty table, or stage one that a commit will create."""
    from lakeward.lake.rest_catalog import is_staged

    name_of(by, levels(namespace), body.get("name"))
    inside, catalog = namespace_of(namespace), by.lake.iceberg_catalog()
    catalog.namespace(inside)
    if is_staged(body):
        return answer(delegated(by, access, catalog.stage(inside, body)))
    return answer(delegated(by, access, catalog.load(catalog.create(inside, body, key))))


@router.post("/namespaces/{namespace}/register")
@needs(Role.ADMIN, everything=True)
def register(by: By, namespace: str, body: Body, key: Key) -> Response:
    """Adopt the table of a metadata file, which can be any file that the service can read."""
    inside, catalog = namespace_of(namespace), by.lake.iceberg_catalog()
    catalog.namespace(inside)
    return answer(catalog.load(catalog.register(inside, body, key)))


@router.head("/namespaces/{namespace}/tables/{iceberg_table}")
@router.get("/namespaces/{namespace}/tables/{iceberg_table}")
@needs(Role.READER)
def load(
    request: Request,
    by: By,
    namespace: str,
    iceberg_table: str,
    snapshots: Annotated[Literal["all", "refs"], Query()] = "all",
    access: Delegation = None,
) -> Response:
    """Load a table's metadata."""
    name = name_of(by, levels(namespace), iceberg_table)
    loaded = by.lake.iceberg_catalog().load(name, refs_only=snapshots == "refs")
    if request.method == "HEAD":
        return nothing()
    return answer(delegated(by, access, loaded))


@router.post("/namespaces/{namespace}/tables/{iceberg_table}")
@needs(Role.WRITER)
def commit(by: By, namespace: str, iceberg_table: str, body: Body, key: Key) -> Response:
    """Commit changes of one table."""
    from lakeward.lake.rest_catalog import parse_commit

    name, catalog = name_of(by, levels(namespace), iceberg_table), by.lake.iceberg_catalog()
    asked = parse_commit(body, (tuple(levels(namespace)), iceberg_table))
    catalog.commit([asked], transaction_id=key, trusted=_is_trusted(by))
    return answer(catalog.load(name))


@router.delete("/namespaces/{namespace}/tables/{iceberg_table}")
@needs(Role.ADMIN)
def drop(by: By, namespace: str, iceberg_table: str, key: Key) -> Response:
    """Drop a table. Its files stay until they are vacuumed, even if a purge is requested."""
    name = name_of(by, levels(namespace), iceberg_table)
    by.lake.iceberg_catalog().drop(name, key)
    return nothing()


@router.post("/tables/rename")
@needs(Role.ADMIN)
def rename(by: By, body: Body, key: Key) -> Response:
    """Rename a table, in the same namespace or into another one."""
    old, new = identified(by, body, "source"), identified(by, body, "destination")
    catalog = by.lake.iceberg_catalog()
    catalog.namespace(new.namespace or DEFAULT)
    catalog.rename(old, new, key)
    return nothing()


@router.post("/transactions/commit")
@needs(Role.WRITER)
def commit_several(by: By, body: Body, key: Key) -> Response:
    """Commit changes of several tables as one transaction: all of them, or none."""
    from lakeward.lake.rest_catalog import parse_commit

    changes = body.get("table-changes")
    if not isinstance(changes, list) or not changes:
        raise InvalidInput("The request has no `table-changes`.")  # noqa: EM101
    asked = [parse_commit(change) for change in changes]
    catalog = by.lake.iceberg_catalog()
    for one in asked:
        by.check(str(catalog.name_of(one.namespace, one.name)))
    catalog.commit(asked, transaction_id=key, trusted=_is_trusted(by))
    return nothing()


@router.post("/namespaces/{namespace}/tables/{iceberg_table}/plan")
@needs(Role.READER)
def plan(by: By, namespace: str, iceberg_table: str, body: ScanBody) -> Response:
    """Plan a scan from the log: list the files that may have rows which match a filter."""
    name = name_of(by, levels(namespace), iceberg_table)
    return answer(by.lake.iceberg_catalog().plan(name, body))


@router.post("/namespaces/{namespace}/tables/{iceberg_table}/metrics")
@needs(Role.READER)
def metrics(by: By, namespace: str, iceberg_table: str, body: Body) -> Response:
    """Accept a client's report about a scan or a commit; the lake does not store it."""
    name_of(by, levels(namespace), iceberg_table)
    if "report-type" not in body:
        raise InvalidInput("The body is no report.")  # noqa: EM101
    return nothing()


def _is_trusted(by: Caller) -> bool:
    """Return whether a caller may add files from anywhere: those who may register any table."""
    return by.may_everywhere(Role.ADMIN)
