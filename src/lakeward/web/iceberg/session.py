"""The first requests of clients of the Iceberg REST catalog: configuration, and OAuth2 tokens.

Some clients cannot be given a bearer token, and exchange client credentials for one. The secret of
these credentials is an access token of the lake, and the response has that same token.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from lakeward.model.roles import Role
from lakeward.web.access import needs
from lakeward.web.answers import JSON, encoded
from lakeward.web.iceberg.requests import PREFIX, answer

router = APIRouter(prefix=PREFIX, tags=["iceberg"])
_ROOT: Final = "/v1/{prefix}"
_OF_NAMESPACE: Final = f"{_ROOT}/namespaces/{{namespace}}"
_OF_TABLE: Final = f"{_OF_NAMESPACE}/tables/{{table}}"
_OF_VIEW: Final = f"{_OF_NAMESPACE}/views/{{view}}"
_ENDPOINTS: Final = (
    f"GET {_ROOT}/namespaces",
    f"POST {_ROOT}/namespaces",
    f"GET {_OF_NAMESPACE}",
    f"HEAD {_OF_NAMESPACE}",
    f"DELETE {_OF_NAMESPACE}",
    f"POST {_OF_NAMESPACE}/properties",
    f"GET {_OF_NAMESPACE}/tables",
    f"POST {_OF_NAMESPACE}/tables",
    f"POST {_OF_NAMESPACE}/register",
    f"GET {_OF_TABLE}",
    f"HEAD {_OF_TABLE}",
    f"POST {_OF_TABLE}",
    f"DELETE {_OF_TABLE}",
    f"POST {_OF_TABLE}/plan",
    f"POST {_OF_TABLE}/metrics",
    f"POST {_ROOT}/tables/rename",
    f"POST {_ROOT}/transactions/commit",
    f"GET {_OF_NAMESPACE}/views",
    f"POST {_OF_NAMESPACE}/views",
    f"POST {_OF_NAMESPACE}/register-view",
    f"GET {_OF_VIEW}",
    f"HEAD {_OF_VIEW}",
    f"POST {_OF_VIEW}",
    f"DELETE {_OF_VIEW}",
    f"POST {_ROOT}/views/rename",
)
_KEYS_LIVE: Final = "P30D"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  a type's name
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"


@router.get("/config")
@needs(Role.READER)
def config(warehouse: Annotated[str | None, Query(max_length=1000)] = None) -> Response:
    """List the endpoints of the catalog. The service has one warehouse; the name is ignored."""
    del warehouse
    return answer(
        {
            "defaults": {},
            "overrides": {},
            "endpoints": list(_ENDPOINTS),
            "idempotency-key-lifetime": _KEYS_LIVE,
        }
    )


@router.post("/oauth/tokens")
@needs(None)
async def tokens(request: Request) -> Response:
    """Exchange the credentials of a client for a bearer token."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    given = {name: values[0] for name, values in form.items()}
    match given.get("grant_type"):
        case "client_credentials":
            secret = given.get("client_secret", "")
        case kind if kind == _EXCHANGE:
            secret = given.get("subject_token", "")
        case _:
            return _refused(400, "unsupported_grant_type", "Use client_credentials.")
    known = request.app.state.lake.token_of
    token = await run_in_threadpool(known, secret) if secret else None
    if token is None:
        what = "The client's secret is no valid token of the lake."
        return _refused(401, "invalid_client", what)
    made: dict[str, Any] = {
        "access_token": secret,
        "token_type": "bearer",
        "issued_token_type": _ACCESS_TOKEN,
    }
    if token.expires is not None:
        left = (token.expires - datetime.now(UTC)).total_seconds()
        made["expires_in"] = max(1, int(left))
    return answer(made)


def _refused(status: int, error: str, description: str) -> Response:
    body = {"error": error, "error_description": description}
    return Response(encoded(body), status, media_type=JSON)
