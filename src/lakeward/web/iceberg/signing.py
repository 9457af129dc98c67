"""Signs requests of Iceberg clients to the object store, for callers who may use the table."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Response

from lakeward.model.roles import Role
from lakeward.web.access import By, Caller, needs
from lakeward.web.iceberg.requests import PREFIX, Body, answer

router = APIRouter(prefix=PREFIX, tags=["iceberg"])
Delegation = Annotated[str | None, Header(alias="X-Iceberg-Access-Delegation", max_length=200)]
"""The type of the parameter by which an endpoint gets how a client wants to access files."""


@router.post("/aws/s3/sign")
@needs(Role.READER)
def sign(by: By, body: Body) -> Response:
    """Sign a request to S3; one that writes or deletes files needs the role of a writer."""

    def check(table: str, writes: bool) -> str:
        return by.check(table, Role.WRITER if writes else Role.READER)

    return answer(by.lake.iceberg_catalog().sign(body, check))


def delegated(by: Caller, wanted: str | None, loaded: dict[str, Any]) -> dict[str, Any]:
    """Return a loaded table with the settings for the access that the client wants."""
    return {**loaded, "config": by.lake.iceberg_catalog().delegation(wanted)}
