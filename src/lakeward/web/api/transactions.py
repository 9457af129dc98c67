"""Endpoints for transactions over several requests, under an id that the client chooses.

Any process of the service can handle each request. An operation that is sent twice with the same
number counts once, and a commit that is sent twice commits once.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BeforeValidator, Field

from lakeward.errors import InvalidInput, TransactionNotFound
from lakeward.lake.records import Pending
from lakeward.model.constraints import ForeignKey
from lakeward.model.evolution.alterations import AddRule
from lakeward.model.roles import Role
from lakeward.web.access import By, Caller, needs
from lakeward.web.answers import answer
from lakeward.web.api.body import Body
from lakeward.web.threads import ChangingRoute
from lakeward.web.uploads import Uploaded

router = APIRouter(prefix="/api/v1/transactions", tags=["transactions"], route_class=ChangingRoute)
_ID: Final = re.compile(r"[A-Za-z0-9_-]{8,128}")
Name = Annotated[str, Field(max_length=300)]
Text = Annotated[str, Field(max_length=10_000)]
Number = Annotated[
    int | None,
    Header(alias="X-Lakeward-Operation", ge=1, description="The operation's place, from 1 on."),
]
_LARGEST: Final = 2**63 - 1


def _kept(value: Any) -> Any:
    """Refuse numbers that the store's JSON cannot hold: NaN, infinities, more than 64 bits."""
    if isinstance(value, float) and not math.isfinite(value):
        message = "a number must be finite"
        raise ValueError(message)
    if isinstance(value, int) and not -_LARGEST - 1 <= value <= _LARGEST:
        message = "a whole number must have at most 64 bits"
        raise ValueError(message)
    return value


Value = Annotated[str | int | float | bool | None, BeforeValidator(_kept)]


class Beginning(Body):
    """A transaction; the fields are the arguments of `lake.transaction`."""

    id: Annotated[str, Field(description="8 to 128 letters, digits, '_' and '-'.")]
    message: Text | None = None
    isolation: Literal["read_committed", "snapshot", "serializable"] = "snapshot"


class Delete(Body):
    """Delete rows."""

    op: Literal["delete"]
    table: Name
    where: Text


class Update(Body):
    """Set columns to values of SQL expressions."""

    op: Literal["update"]
    table: Name
    set: Annotated[dict[str, Value], Field(min_length=1, max_length=1000)]
    where: Text | None = None


class Create(Body):
    """Create a table."""

    op: Literal["create"]
    table: Name
    # The name `schema` belongs to pydantic.
    columns: Annotated[str | dict[str, str], Field(alias="schema")]
    format: Literal["delta", "iceberg"] = "delta"
    partition_by: list[str] = Field(default_factory=list)
    properties: dict[str, str] = Field(default_factory=dict)
    comment: Text | None = None


class Alter(Body):
    """Alter a table; each text of `changes` is what follows `ALTER TABLE name` in SQL."""

    op: Literal["alter"]
    table: Name
    changes: Annotated[list[Text], Field(min_length=1, max_length=1000)]


class Drop(Body):
    """Drop a table."""

    op: Literal["drop"]
    table: Name


Operation = Annotated[Delete | Update | Create | Alter | Drop, Field(discriminator="op")]


class Committing(Body):
    """A commit.

    Attributes:
        expected: Versions that tables must have when the commit changes them, by table name.
    """

    expected: dict[Name, int] = Field(default_factory=dict, max_length=1000)


@router.post("", status_code=201)
@needs(Role.WRITER)
def begin(request: Request, by: By, body: Beginning) -> Response:
    """Begin a transaction; if this caller began one with this id before, return that."""
    if not _ID.fullmatch(body.id):
        what = "The id of the transaction has not the form of one."
        raise InvalidInput(what, hint="Use 8 to 128 letters, digits, '_' and '-'.")
    made = by.lake.begin_pending(body.id, message=body.message, isolation=body.isolation)
    return answer(request, made, status=201)


@router.get("/{transaction_id}/operations")
@needs(Role.WRITER)
def operations(request: Request, by: By, transaction_id: str) -> Response:
    """Show a transaction that is not committed yet, with its operations."""
    return answer(request, by.lake.pending(transaction_id))


@router.post("/{transaction_id}/operations")
@needs(Role.WRITER)
def add(
    request: Request, by: By, transaction_id: str, body: Operation, number: Number = None
) -> Response:
    """Add an operation without rows."""
    given = body.model_dump(by_alias=True)
    _check(by, given)
    return answer(request, by.lake.add_pending(transaction_id, given, number=number))


@router.post("/{transaction_id}/rows")
@needs(Role.WRITER)
def add_rows(
    request: Request,
    by: By,
    transaction_id: str,
    rows: Uploaded,
    table: Annotated[str, Query(max_length=300)],
    op: Literal["append", "overwrite", "merge"] = "append",
    where: Annotated[str | None, Query(max_length=10_000)] = None,
    on: Annotated[list[str] | None, Query(description="The key of a merge.")] = None,
    schema_mode: Literal["merge", "overwrite"] | None = None,
    number: Number = None,
) -> Response:
    """Add an operation with rows: an Arrow IPC stream or a Parquet file as the body."""
    given: dict[str, Any] = {"op": op, "table": table, "format": rows.form}
    if op == "merge":
        if not on:
            raise InvalidInput("A merge needs `on`, the columns of the key.")  # noqa: EM101
        given["on"] = on
    if op == "overwrite":
        given["where"] = where
    if op != "merge":
        given["schema_mode"] = schema_mode
    _check(by, given)
    most = request.app.state.settings.max_pending
    data = rows.checked_bytes()
    done = by.lake.add_pending(transaction_id, given, data=data, number=number, most_bytes=most)
    return answer(request, done)


@router.post("/{transaction_id}/commit")
@needs(Role.WRITER)
def commit(request: Request, by: By, transaction_id: str, body: Committing) -> Response:
    """Execute all operations and commit; if it was committed before, return the same result."""
    by.check_all(body.expected, Role.READER)
    pending = _if_pending(by, transaction_id)
    for operation in () if pending is None else pending.operations:
        # What was allowed when it was sent may not be now.
        _check(by, dict(operation))
    return answer(request, by.lake.commit_pending(transaction_id, expected=body.expected))


@router.delete("/{transaction_id}")
@needs(Role.WRITER)
def roll_back(request: Request, by: By, transaction_id: str) -> Response:
    """Delete a transaction that was not committed."""
    by.lake.roll_back_pending(transaction_id)
    return answer(request, {"transaction_id": transaction_id, "rolled_back": True})


def _if_pending(by: Caller, transaction_id: str) -> Pending | None:
    try:
        return by.lake.pending(transaction_id)
    except TransactionNotFound:
        return None


def _check(by: Caller, operation: dict[str, Any]) -> None:
    """Check that the caller has the role that an operation needs for its tables; raise if not."""
    role = Role.ADMIN if operation["op"] == "drop" else Role.WRITER
    by.check(str(operation["table"]), role)
    if operation["op"] == "alter":
        for other in _referred(operation["changes"]):
            by.check(other, Role.READER)


def _referred(changes: list[str]) -> list[str]:
    """Return the tables that foreign keys in `changes` refer to."""
    from lakeward.model.evolution.clauses import parse_clause

    found = (one for change in changes for one in parse_clause(change))
    rules = (one.rule for one in found if isinstance(one, AddRule))
    return [rule.references for rule in rules if isinstance(rule, ForeignKey)]
