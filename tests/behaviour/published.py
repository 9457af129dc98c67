"""What a table's own files tell of its commits, read as plain JSON, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

import lakeward as lw
from lakeward.log import catalog
from lakeward.model.names import TableName
from tests.behaviour.lakes import log_files
from tests.support.inside import context_of
from tests.support.s3 import on_disk


@dataclass(frozen=True, slots=True)
class Told:
    """A commit as outsiders see it."""

    version: int
    timestamp_ms: int
    transaction_id: str
    operation: str
    message: str | None
    members: int
    attempts: int
    applications: Mapping[str, int] = field(default_factory=dict)


def told(lake: lw.Lake, name: str) -> list[Told]:
    """Every commit but the one that made the table, oldest first."""
    if lake.table(name).format == "iceberg":
        return [_of_iceberg(s) for s in document(lake, name)["snapshots"]]
    return [_of_delta(n, p) for n, p in enumerate(log_files(lake, name)) if n]


def document(lake: lw.Lake, name: str) -> dict[str, Any]:
    """The metadata document that the catalog names for an Iceberg table."""
    with context_of(lake).database.read() as session:
        place = catalog.pointer(session, TableName.parse(name))
    assert place is not None
    found: dict[str, Any] = orjson.loads(on_disk(place).read_bytes())
    return found


def documents(lake: lw.Lake, name: str) -> list[Path]:
    """Every metadata document that lies beside an Iceberg table, whether anything names it."""
    return sorted((on_disk(lake.table(name).location) / "metadata").glob("*.metadata.json"))


def _of_delta(version: int, path: Path) -> Told:
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    info = lines[0]["commitInfo"]
    return Told(
        version=version,
        timestamp_ms=info["timestamp"],
        transaction_id=info["txnId"],
        operation=info["operation"],
        message=info.get("userMetadata"),
        members=int(info["tags"]["lakeward.members"]),
        attempts=int(info["tags"]["lakeward.attempts"]),
        applications={a["appId"]: a["version"] for a in (x["txn"] for x in lines if "txn" in x)},
    )


def _of_iceberg(snapshot: Mapping[str, Any]) -> Told:
    summary = snapshot["summary"]
    info = orjson.loads(summary["lakeward.info"])
    return Told(
        version=int(summary["lakeward.version"]),
        timestamp_ms=snapshot["timestamp-ms"],
        transaction_id=summary["lakeward.transaction-id"],
        operation=info["operation"],
        message=info.get("message"),
        members=info["members"],
        attempts=info.get("attempts", 1),
        applications={a[0]: a[1] for a in orjson.loads(summary.get("lakeward.applications", "[]"))},
    )
