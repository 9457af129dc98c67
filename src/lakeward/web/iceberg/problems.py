"""Errors in the form of Iceberg's REST protocol, whose clients react to status and type.

Some clients also show or compare the message, so it begins with the words that other Iceberg
catalogs use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import Response

from lakeward.web.answers import JSON, encoded

_STATUS: Final = {
    # Clients take 500 of a commit for an outcome that they have to look up, and 503 for none.
    "OutcomeUnknown": 500,
    "UnsupportedFeature": 406,
    "ConstraintViolation": 400,
    "SchemaMismatch": 400,
    "PolicyViolation": 400,
    "Refused": 400,
    "Locked": 409,
    "Unprocessable": 422,
}
_TYPES: Final = {
    "OutcomeUnknown": "CommitStateUnknownException",
    "UnsupportedFeature": "UnsupportedOperationException",
    "AlreadyExists": "AlreadyExistsException",
    "NotEmpty": "NamespaceNotEmptyException",
    "Unprocessable": "UnprocessableEntityException",
}
_TYPES_BY_STATUS: Final = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    409: "CommitFailedException",
    503: "SlowDownException",
}
_MISSING: Final = {
    "table": "NoSuchTableException",
    "view": "NoSuchViewException",
    "namespace": "NoSuchNamespaceException",
}


def for_iceberg(
    path: str, status: int, kind: str, detail: str, facts: Mapping[str, Any]
) -> Response:
    """Return an error as a response of the protocol.

    Args:
        path: The path of the request.
        status: The status of this error in the REST API of the lake.
        kind: The name of the error's class.
        detail: What happened.
        facts: The error's attributes, which may include `table`, `view` or `namespace`.
    """
    status = _STATUS.get(kind, status)
    what = next((name for name in _MISSING if name in facts), None)
    usual = _TYPES_BY_STATUS.get(status, "InternalServerError")
    if status == 400 and path.endswith("/views"):
        # The client takes the error of a new view for one of its own arguments.
        usual = "IllegalArgumentException"
    if status == 404:
        usual = _MISSING.get(what or "", "NotFoundException")
    if status == 404 and what == "namespace":
        detail = ""
    error = {
        "message": f"{_usual_words(status, kind, what, facts)}{detail}".removesuffix(". "),
        "type": _TYPES.get(kind, usual),
        "code": status,
    }
    return Response(encoded({"error": error}), status, media_type=JSON)


def _usual_words(status: int, kind: str, what: str | None, facts: Mapping[str, Any]) -> str:
    """Return the usual beginning of an error message of Iceberg catalogs; empty if none."""
    if what is None:
        return ""
    if kind == "AlreadyExists":
        return f"{what.capitalize()} already exists: {facts[what]}. "
    return f"{what.capitalize()} does not exist: {facts[what]}. " if status == 404 else ""
