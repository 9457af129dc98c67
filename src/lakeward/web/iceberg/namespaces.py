"""Namespaces of the Iceberg REST catalog."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from lakeward.errors import InvalidInput, NotFound
from lakeward.model.namespaces import levels_of
from lakeward.model.roles import Role
from lakeward.web.access import By, Caller, Forbidden, needs
from lakeward.web.iceberg.requests import (
    LEVELS,
    PREFIX,
    Body,
    Key,
    answer,
    levels,
    namespace_of,
    nothing,
    page,
)
from lakeward.web.threads import ChangingRoute

router = APIRouter(prefix=PREFIX, tags=["iceberg"], route_class=ChangingRoute)
Size = Annotated[int | None, Query(alias="pageSize", ge=1, le=100_000)]
Token = Annotated[str | None, Query(alias="pageToken", max_length=500)]


class Unprocessable(InvalidInput):
    """The request has a valid form, but contradicts itself."""


@router.get("/namespaces")
@needs(Role.READER)
def namespaces(
    by: By,
    parent: Annotated[str | None, Query(max_length=500)] = None,
    size: Size = None,
    token: Token = None,
) -> Response:
    """List the namespaces in which the caller has access to something."""
    inside = namespace_of(parent) if parent else None
    seen = [n for n in by.lake.iceberg_catalog().namespaces(inside) if _is_open(by, n)]
    shown, more = page(seen, size, token, str)
    return answer({"namespaces": [levels_of(n) for n in shown], "next-page-token": more})


@router.post("/namespaces")
@needs(Role.WRITER)
def create(by: By, body: Body, key: Key) -> Response:
    """Create a namespace."""
    given = body.get("namespace")
    if not isinstance(given, list) or not all(isinstance(level, str) for level in given):
        raise InvalidInput("The request names no namespace.")  # noqa: EM101
    _check_whole(by, LEVELS.join(given))
    made = by.lake.iceberg_catalog().create_namespace(given, body.get("properties"), key)
    return answer({"namespace": given, "properties": made})


@router.head("/namespaces/{namespace}")
@router.get("/namespaces/{namespace}")
@needs(Role.READER)
def load(request: Request, by: By, namespace: str) -> Response:
    """Show a namespace with its properties."""
    check_open(by, namespace)
    found = by.lake.iceberg_catalog().namespace(namespace_of(namespace))
    if request.method == "HEAD":
        return nothing()
    return answer({"namespace": levels(namespace), "properties": found})


@router.post("/namespaces/{namespace}/properties")
@needs(Role.WRITER)
def change(by: By, namespace: str, body: Body, key: Key) -> Response:
    """Set and remove properties of a namespace."""
    _check_whole(by, namespace)
    updates, removals = body.get("updates"), body.get("removals")
    if isinstance(updates, dict) and isinstance(removals, list):
        both = [k for k in removals if isinstance(k, str) and k in updates]
        if both:
            what = f"Property {both[0]} is set and removed at once."
            raise Unprocessable(what, hint="Do one of them.")
    inside, catalog = namespace_of(namespace), by.lake.iceberg_catalog()
    return answer({**catalog.change_namespace(inside, updates, removals, key)})


@router.delete("/namespaces/{namespace}")
@needs(Role.ADMIN)
def drop(by: By, namespace: str, key: Key) -> Response:
    """Delete a namespace that has nothing inside."""
    _check_whole(by, namespace)
    by.lake.iceberg_catalog().drop_namespace(namespace_of(namespace), key)
    return nothing()


def check_open(by: Caller, namespace: str) -> str:
    """Return the lake's namespace; raise `NotFound` if the caller has no access to it."""
    found = namespace_of(namespace)
    if not _is_open(by, found):
        what = f"The lake has no namespace {found}, or it is not open to you."
        raise NotFound(what, namespace=found)
    return found


def _check_whole(by: Caller, namespace: str) -> None:
    """Raise an error unless the caller has the endpoint's role for all tables of a namespace."""
    found = namespace_of(namespace)
    if not by.may_in(found, by.needed):
        check_open(by, namespace)
        what = f"This needs the role {by.needed.value} for all tables of namespace {found}."
        raise Forbidden(what, hint="Ask an administrator of the lake for it.")


def _is_open(by: Caller, namespace: str) -> bool:
    """Return whether the caller has access to a namespace, or to something inside it."""
    if by.may_in(namespace, Role.READER):
        return True
    catalog = by.lake.iceberg_catalog()
    inside = [*catalog.tables(namespace), *catalog.views(namespace)]
    if any(by.sees(str(name)) for name in inside):
        return True
    return any(_is_open(by, below) for below in catalog.namespaces(namespace))
