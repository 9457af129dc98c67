"""Tables that are all log: many files, or many versions, without the data.

A plan reads no data, so none is written. The same files go into an ordinary `_delta_log` for
deltalake and, through the functions that commits use, into a Lakeward log: a version at a time,
so that building a large one takes little memory.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

import lakeward as lw
from benchmarks.data import SCHEMA
from lakeward.context import context_of
from lakeward.log import commits, files, heads
from lakeward.log.database import Session
from lakeward.model.commit import Commit, CommitInfo, Head
from lakeward.model.file import DataFile, FileStats, LoggedFile
from lakeward.model.names import TableName
from lakeward.write.plan.change import Operation

ROWS_PER_FILE = 100
"""Ids of a file; the files' ids do not overlap."""
_SPREAD = 1_000_000_007
_VERSIONS_AT_ONCE = 100
_FIRST_MS = 1_700_000_000_000
_COLUMNS = ("id", "k")


@dataclass(frozen=True, slots=True)
class ManyFiles:
    """The shape of a log of many files.

    Column `id` has disjoint ranges, file by file. Column `k` has ranges in no order that overlap:
    every value lies in about ten of them, however many files there are.
    """

    versions: int
    files_per_version: int

    @property
    def files(self) -> int:
        """Files in all."""
        return self.versions * self.files_per_version

    def write_delta(self, location: Path) -> None:
        """Write the log as any Delta writer would have left it, one entry a version."""
        log = location / "_delta_log"
        log.mkdir(parents=True)
        for version in range(self.versions):
            actions: list[dict[str, Any]] = [_commit_info(version)]
            if version == 0:
                actions += [_protocol(), _metadata()]
            actions += [{"add": _add(f)} for f in self._of(version)]
            entry = log / f"{version:020d}.json"
            entry.write_bytes(b"\n".join(map(orjson.dumps, actions)) + b"\n")

    def insert(self, lake: lw.Lake, name: str) -> None:
        """Insert the same files into a new table of a lake, published nowhere."""
        lake.create(name, dict.fromkeys(_COLUMNS, "int64"))
        for start in range(0, self.versions, _VERSIONS_AT_ONCE):
            with context_of(lake).database.write() as session:
                head = heads.get(session, TableName.parse(name))
                indexed = context_of(lake).definition(session, head).schema.indexed
                for version in range(start, min(start + _VERSIONS_AT_ONCE, self.versions)):
                    head = replace(head, version=version + 1, timestamp_ms=head.timestamp_ms + 1)
                    _commit(session, lake, head)
                    added = [
                        LoggedFile(f, head.version, n) for n, f in enumerate(self._of(version))
                    ]
                    files.insert(session, head.table_id, added, indexed)
                heads.advance(session, head)
                heads.set_published(session, head.table_id, head.version)

    def commit(self, lake: lw.Lake, name: str, format_name: str) -> None:
        """Commit the same files to a new table of a lake, with all metadata of its format.

        An Iceberg table cannot be published nowhere: its next document follows from the newest.
        """
        lake.create(name, dict.fromkeys(_COLUMNS, "int64"), format=format_name)
        for version in range(self.versions):
            with context_of(lake).database.read() as session:
                head = heads.get(session, TableName.parse(name))
                definition = context_of(lake).definition(session, head)
            with lake.transaction() as tx:
                change = tx._begin_at(head, definition)
                change.added.extend(self._of(version))
                change.operations.append(Operation("WRITE", {}))

    def paths(self) -> Iterator[str]:
        """The paths of all files, below the table's directory."""
        return (f.path for version in range(self.versions) for f in self._of(version))

    def _of(self, version: int) -> Iterator[DataFile]:
        """The files that a version adds. Fields 1 and 2 are `id` and `k`."""
        width = 10 * _SPREAD // self.files
        first = version * self.files_per_version
        for number in range(first, first + self.files_per_version):
            low, k = number * ROWS_PER_FILE, number * 618_033_989 % _SPREAD
            yield DataFile(
                path=f"part-{number:08d}-{uuid.UUID(int=number)}.snappy.parquet",
                size=2048,
                rows=ROWS_PER_FILE,
                modified_ms=_FIRST_MS,
                stats=FileStats(
                    {1: low, 2: k}, {1: low + ROWS_PER_FILE - 1, 2: k + width}, {1: 0, 2: 0}
                ),
            )


def many_versions(lake: lw.Lake, name: str, count: int) -> list[int]:
    """A table with so many versions, a second apart; the moments of all of them in milliseconds."""
    lake.create(name, SCHEMA)
    with context_of(lake).database.write() as session:
        head = heads.get(session, TableName.parse(name))
        moments = [head.timestamp_ms + 1000 * n for n in range(count)]
        for version in range(1, count):
            head = replace(head, version=version, timestamp_ms=moments[version])
            _commit(session, lake, head)
        heads.advance(session, head)
        heads.set_published(session, head.table_id, head.version)
    return moments


def _commit(session: Session, lake: lw.Lake, head: Head) -> None:
    info = CommitInfo(
        transaction_id=f"benchmark-{head.version}",
        operation="WRITE",
        actor=context_of(lake).actor,
        engine=context_of(lake).engine,
    )
    commits.insert(session, head.table_id, Commit(head.version, head.timestamp_ms, info), None)


def _add(source: DataFile) -> dict[str, Any]:
    found = source.stats or FileStats()
    names = dict(enumerate(_COLUMNS, start=1))
    stats = {
        "numRecords": source.rows,
        "minValues": {names[k]: v for k, v in found.minimum.items()},
        "maxValues": {names[k]: v for k, v in found.maximum.items()},
        "nullCount": {names[k]: v for k, v in found.nulls.items()},
    }
    return {
        "path": source.path,
        "partitionValues": {},
        "size": source.size,
        "modificationTime": source.modified_ms,
        "dataChange": True,
        "stats": orjson.dumps(stats).decode(),
    }


def _commit_info(version: int) -> dict[str, Any]:
    return {
        "commitInfo": {
            "timestamp": _FIRST_MS + version * 1000,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
        }
    }


def _protocol() -> dict[str, Any]:
    return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def _metadata() -> dict[str, Any]:
    fields = [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in _COLUMNS]
    return {
        "metaData": {
            "id": str(uuid.UUID(int=1)),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": orjson.dumps({"type": "struct", "fields": fields}).decode(),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": _FIRST_MS,
        }
    }
