"""A table's versions, as history tells them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeward.formats.iceberg.summary import SNAPSHOT_ID
from lakeward.log.commits import LoggedCommit
from lakeward.model.clock import to_datetime


@dataclass(frozen=True, slots=True)
class Version:
    """A version in a table's history.

    Attributes:
        snapshot_id: The Iceberg snapshot that the commit made; None where it made none, and on
            tables of other formats.
    """

    version: int
    timestamp: datetime
    transaction_id: str
    operation: str
    parameters: dict[str, Any]
    metrics: dict[str, Any]
    actor: str
    engine: str
    message: str | None
    members: int
    attempts: int
    adopted: bool
    snapshot_id: int | None = None


def version_of(source: LoggedCommit) -> Version:
    """A commit of the log as a version."""
    info = source.info
    return Version(
        version=source.version,
        timestamp=to_datetime(source.timestamp_ms),
        transaction_id=info.transaction_id,
        operation=info.operation,
        parameters=dict(info.parameters),
        metrics=dict(info.metrics),
        actor=info.actor,
        engine=info.engine,
        message=info.message,
        members=info.members,
        attempts=info.attempts,
        adopted=info.adopted,
        snapshot_id=(info.extra or {}).get(SNAPSHOT_ID),
    )
