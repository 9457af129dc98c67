"""Endpoints of the Iceberg REST catalog for views. The lake stores their SQL, and never runs it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lakeward.model.namespaces import DEFAULT, levels_of
from lakeward.model.roles import Role
from lakeward.web.access import By, needs
from lakeward.web.iceberg.namespaces import Size, Token, check_open
from lakeward.web.iceberg.requests import (
    PREFIX,
    Body,
    Key,
    answer,
    identified,
    levels,
    name_of,
    namespace_of,
    nothing,
    page,
)
from lakeward.web.threads import ChangingRoute

router = APIRouter(prefix=PREFIX, tags=["iceberg"], route_class=ChangingRoute)


@router.get("/namespaces/{namespace}/views")
@needs(Role.READER)
def views(by: By, namespace: str, size: Size = None, token: Token = None) -> Response:
    """List the views of a namespace that the caller has access to."""
    inside, catalog = check_open(by, namespace), by.lake.iceberg_catalog()
    catalog.namespace(inside)
    seen = [name for name in catalog.views(inside) if by.sees(str(name))]
    shown, more = page(seen, size, token, lambda name: name.name)
    found = [{"namespace": levels_of(inside), "name": name.name} for name in shown]
    return answer({"identifiers": found, "next-page-token": more})


@router.post("/namespaces/{namespace}/views")
@needs(Role.WRITER)
def create(by: By, namespace: str, body: Body, key: Key) -> Response:
    """Create a view."""
    name_of(by, levels(namespace), body.get("name"))
    inside, catalog = namespace_of(namespace), by.lake.iceberg_catalog()
    catalog.namespace(inside)
    return answer(catalog.load_view(catalog.create_view(inside, body, key)))


@router.post("/namespaces/{namespace}/register-view")
@needs(Role.ADMIN, everything=True)
def register(by: By, namespace: str, body: Body, key: Key) -> Response:
    """Create a view from an existing metadata file."""
    inside, catalog = namespace_of(namespace), by.lake.iceberg_catalog()
    catalog.namespace(inside)
    return answer(catalog.load_view(catalog.register_view(inside, body, key)))


@router.head("/namespaces/{namespace}/views/{iceberg_view}")
@router.get("/namespaces/{namespace}/views/{iceberg_view}")
@needs(Role.READER)
def load(request: Request, by: By, namespace: str, iceberg_view: str) -> Response:
    """Load a view's metadata."""
    found = by.lake.iceberg_catalog().load_view(name_of(by, levels(namespace), iceberg_view))
    return nothing() if request.method == "HEAD" else answer(found)


@router.post("/namespaces/{namespace}/views/{iceberg_view}")
@needs(Role.WRITER)
def commit(by: By, namespace: str, iceberg_view: str, body: Body, key: Key) -> Response:
    """Commit a new version of a view."""
    name, catalog = name_of(by, levels(namespace), iceberg_view), by.lake.iceberg_catalog()
    catalog.commit_view(name, body, key)
    return answer(catalog.load_view(name))


@router.delete("/namespaces/{namespace}/views/{iceberg_view}")
@needs(Role.ADMIN)
def drop(by: By, namespace: str, iceberg_view: str, key: Key) -> Response:
    """Drop a view."""
    name = name_of(by, levels(namespace), iceberg_view)
    by.lake.iceberg_catalog().drop_view(name, key)
    return nothing()


@router.post("/views/rename")
@needs(Role.ADMIN)
def rename(by: By, body: Body, key: Key) -> Response:
    """Rename a view, in the same namespace or into another one."""
    old, new = identified(by, body, "source"), identified(by, body, "destination")
    catalog = by.lake.iceberg_catalog()
    catalog.namespace(new.namespace or DEFAULT)
    catalog.rename_view(old, new, key)
    return nothing()
