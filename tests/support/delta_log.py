"""A `_delta_log` written by hand, and what a history must say of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pyarrow as pa
from deltalake import DeltaTable

from lakeward.formats.delta.history import read_commit, read_history
from lakeward.formats.delta.values import vector_id
from lakeward.model.commit import AppTransaction, Commit, CommitInfo, Head
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE, DataFile, FileStats, LoggedFile
from lakeward.model.history import ForeignActions, TableHistory
from lakeward.model.names import TableName
from lakeward.model.schema import Schema
from lakeward.storage.local import LocalStorage

UUID = "0f9f5a5e-7d4c-4f3a-9a53-0b9f5c1f7a11"
PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
ID_NAME = [("id", "long"), ("name", "string")]


def files_at(history: TableHistory, version: int) -> list[LoggedFile]:
    return [f for f in history.files if f.added <= version < f.removed]


def check_incrementally(storage: LocalStorage, root: Path) -> None:
    whole = read_history(storage, root.name)
    grown = _prefix(storage, root, whole.first_version)
    for version in range(whole.first_version + 1, whole.version + 1):
        found = read_commit(
            storage,
            root.name,
            version,
            grown.definitions[-1][1],
            uuid=grown.uuid,
            after_ms=grown.commits[-1].timestamp_ms,
        )
        assert found is not None
        grown = _grow(grown, found)
    assert grown == whole
    definition = whole.definitions[-1][1]
    assert read_commit(storage, root.name, whole.version + 1, definition, uuid="") is None


def _prefix(storage: LocalStorage, root: Path, version: int) -> TableHistory:
    """The history of a copy of the log that ends with this version."""
    copy = root.with_name(f"{root.name}-prefix")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root / "_delta_log", copy / "_delta_log")
    for file in (copy / "_delta_log").glob("*"):
        if file.is_file() and file.name[:20].isdigit() and int(file.name[:20]) > version:
            file.unlink()
    return read_history(storage, copy.name)


def _grow(history: TableHistory, found: ForeignActions) -> TableHistory:
    ended = {*found.removed, *((f.path, vector_id(f.deletion_vector)) for f in found.added)}
    files = [
        replace(f, removed=found.version)
        if f.removed == LIVE and (f.path, vector_id(f.file.deletion_vector)) in ended
        else f
        for f in history.files
    ]
    files += [LoggedFile(f, found.version, n) for n, f in enumerate(found.added)]
    commit = Commit(
        found.version,
        found.timestamp_ms,
        found.info,
        app_transactions=found.app_transactions,
        change_files=found.change_files,
        domains=found.domains,
    )
    definition = [(found.version, found.definition)] if found.definition else []
    domains = {**history.domains, **found.domains}
    return replace(
        history,
        uuid=found.uuid or history.uuid,
        name=found.name if found.uuid else history.name,
        version=found.version,
        definitions=history.definitions + definition,
        commits=[*history.commits, commit],
        files=files,
        app_transactions=[
            *history.app_transactions,
            *((found.version, a) for a in found.app_transactions),
        ],
        domains={k: v for k, v in domains.items() if v is not None},
    )


class Log:
    """A `_delta_log` written line by line."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.version = -1
        self.path("").mkdir(parents=True)

    def path(self, name: str) -> Path:
        return self.root / "_delta_log" / name

    def start(
        self,
        columns: Iterable[tuple[str, Any]] = ID_NAME,
        *more: dict[str, Any],
        protocol: dict[str, Any] | None = None,
        **metadata: Any,
    ) -> Log:
        return self.commit(
            {"protocol": protocol or PLAIN},
            {"metaData": metadata_action(columns, **metadata)},
            *more,
        )

    def commit(self, *actions: dict[str, Any], info: dict[str, Any] | None = None) -> Log:
        self.version += 1
        told = {"timestamp": 1_700_000_000_000 + self.version, "operation": "WRITE"}
        lines = [{"commitInfo": told if info is None else info}, *actions]
        return self.raw(b"".join(orjson.dumps(line) + b"\n" for line in lines))

    def raw(self, data: bytes) -> Log:
        self.path(f"{self.version:020}.json").write_bytes(data)
        return self

    def checkpoint(self, version: int) -> None:
        table = DeltaTable(self.root, version=version)
        table.create_checkpoint()
        self.path("_last_checkpoint").unlink(missing_ok=True)


def metadata_action(columns: Iterable[tuple[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "id": UUID,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(struct_of(columns)),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1_600_000_000_000,
        **more,
    }


def struct_of(columns: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {"type": "struct", "fields": [column(*c) for c in columns]}


def column(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def add(path: str, **more: Any) -> dict[str, Any]:
    return {
        "path": path,
        "partitionValues": {},
        "size": 10,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        **more,
    }


def remove(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "deletionTimestamp": 1, "dataChange": True, **more}


def vector(place: str, offset: int | None = 1) -> dict[str, Any]:
    out = {"storageType": "u", "pathOrInlineDv": place, "sizeInBytes": 40, "cardinality": 2}
    return out if offset is None else {**out, "offset": offset}


def spans(history: TableHistory) -> list[tuple[str, str | None, int, int | None]]:
    return [
        (
            f.path,
            vector_id(f.file.deletion_vector),
            f.added,
            None if f.removed == LIVE else f.removed,
        )
        for f in history.files
    ]


def grow_richly(log: Log, *, sidecars: bool = False) -> TableHistory:
    """A log with some of everything that a checkpoint must carry."""
    columns = [("id", "long"), ("day", "date"), ("at", "timestamp"), ("d", "decimal(9,2)")]
    features = ["deletionVectors", "v2Checkpoint"] if sidecars else ["deletionVectors"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": [*features, "domainMetadata"],
    }
    log.start(columns, protocol=protocol, partitionColumns=["day"], name="n", description="d")
    for n in range(1, 6):
        stats = {
            "numRecords": n,
            "minValues": {"id": n, "at": f"2020-01-0{n}T00:00:00.000Z", "d": n + 0.25},
            "maxValues": {"id": n * 2, "at": f"2020-01-0{n}T00:00:00.001Z", "d": n + 0.5},
            "nullCount": {"id": 0, "at": 0, "d": 0},
        }
        log.commit(
            {
                "add": add(
                    f"day=x/f%20{n}",
                    partitionValues={"day": None if n == 3 else f"2020-01-0{n}"},
                    stats=json.dumps(stats),
                    deletionVector=vector("^-aqEH.-t@S}K{vb[*k^") if n == 4 else None,
                    tags={"k": "v"} if n == 2 else None,
                )
            },
            {"txn": {"appId": f"app{n % 2}", "version": n}},
            {"domainMetadata": {"domain": "x", "configuration": str(n), "removed": False}},
        )
    log.commit({"remove": remove("day=x/f%201")})
    return read_history(LocalStorage(log.root.parent), "t")


def forget(log: Log, *, before: int) -> None:
    for version in range(before):
        log.path(f"{version:020}.json").unlink()


def state_of(history: TableHistory) -> dict[str, DataFile]:
    return {f.path: f.file for f in files_at(history, history.version)}


def own_commits() -> tuple[Head, Definition, list[Commit]]:
    schema = Schema.from_arrow(
        pa.schema(
            [
                ("id", pa.int64()),
                ("tags", pa.list_(pa.timestamp("ms"))),
                ("day", pa.date32()),
                ("at", pa.timestamp("ms", "UTC")),
                ("price", pa.decimal128(38, 2)),
                ("deep", pa.map_(pa.string(), pa.struct([("x", pa.list_(pa.int8()))]))),
            ]
        )
    )
    definition = Definition(
        schema=schema,
        partition_by=(schema.field("day").id,),
        properties={"owner": "ann"},
        constraints={"positive": "id > 0"},
        protocol={
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["timestampNtz"],
            "writerFeatures": ["inCommitTimestamp", "timestampNtz"],
        },
        created_ms=1_700_000_000_000,
        comment="what was sold",
    )
    ids = {f.name: f.id for f in schema.fields}
    bounds = FileStats(
        {ids["id"]: 1, ids["at"]: 1_700_000_000_000_000, ids["price"]: "12345678901234567.80"},
        {ids["id"]: 5, ids["at"]: 1_700_000_000_001_000, ids["price"]: "98765432109876543.21"},
        {ids["id"]: 0, ids["at"]: 0, ids["price"]: 2},
    )
    files = [
        DataFile(
            f"day=2024-01-0{n}/a b%{n}.parquet",
            n,
            5,
            1_700_000_000_000 + n,
            {ids["day"]: 19722 + n},
            bounds,
        )
        for n in range(1, 4)
    ]
    info = CommitInfo("tx0", "CREATE", engine="Lakeward/0.1.0", actor="ann", members=2, attempts=3)
    commits = [
        Commit(0, 1_700_000_000_000, info, definition=definition),
        Commit(
            1,
            1_700_000_000_005,
            CommitInfo(
                "tx1",
                "WRITE",
                {"mode": "append"},
                {"rows": "5"},
                "bo",
                "Lakeward/0.1.0",
                "why",
                blind=True,
            ),
            tuple(files),
            app_transactions=(AppTransaction("app", 7, 1_700_000_000_001),),
        ),
        Commit(
            2,
            1_700_000_000_006,
            CommitInfo("tx2", "REMOVE", engine="Lakeward/0.1.0", data_change=False),
            removed=(LoggedFile(files[1], 1, 1),),
            change_files=(
                DataFile("_change_data/day=x y/c.parquet", 9, None, 0, {ids["day"]: 19724}),
                DataFile(
                    "_change_data/d", 0, None, 0, {ids["day"]: None}, extra={"tags": {"a": "b"}}
                ),
            ),
        ),
    ]
    head = cast(Head, SimpleNamespace(uuid=UUID, name=TableName("sales", "orders")))
    return head, definition, commits
