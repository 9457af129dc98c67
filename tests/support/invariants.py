"""What must hold of every lake at rest, whatever happened to it.

It is asked of the log, of the lake's own reader, of the published files, and of a reader that is
not ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from lakeward.formats.delta.publication import commit_bytes, commit_path
from lakeward.log import audit, commits, definitions, files, heads
from lakeward.model.commit import Head
from lakeward.model.file import is_full
from lakeward.model.names import TableName
from tests.support.iceberg import stranger_arrow, stranger_table
from tests.support.inside import context_of
from tests.support.s3 import on_disk

Rows = Counter[tuple[Any, ...]]
_LISTED = 100
"""How many of the newest snapshots a document of an Iceberg table lists at least."""


def check_lake(lake: lw.Lake, tables: Iterable[str], *, since: int = 0) -> dict[str, Rows]:
    """Check the log, the files and the readers against each other; the rows of each table.

    Args:
        lake: Opened after what happened.
        tables: The tables that the test changed: all members of its transactions.
        since: Older versions were checked before, byte for byte.
    """
    names = list(tables)
    found = {name: _head(lake, name) for name in names}
    for head in found.values():
        _check_versions(lake, head)
        if head.format == "iceberg":
            _check_pointer(lake, head)
        else:
            _check_published(lake, head, since)
        _check_files(lake, head)
        _check_audit(lake, head)
    _check_members(lake, list(found.values()))
    return _check_rows(lake, names)


def check_nothing_torn(warehouse: Path) -> None:
    """Whoever reads the raw files sees whole ones, even before anybody repairs anything."""
    for path in warehouse.glob("**/_delta_log/*.json"):
        for line in path.read_bytes().splitlines(keepends=True):
            assert line.endswith(b"\n"), path
            action = orjson.loads(line)
            if "add" in action:
                file = path.parent.parent / unquote(action["add"]["path"])
                assert file.stat().st_size == action["add"]["size"], file
    for path in warehouse.glob("**/_delta_log/_last_checkpoint"):
        version = orjson.loads(path.read_bytes())["version"]
        pq.read_metadata(path.with_name(f"{version:020d}.checkpoint.parquet"))


def rows_of(table: pa.Table) -> Rows:
    """The rows as a multiset."""
    columns = [table.column(n).to_pylist() for n in sorted(table.column_names)]
    return Counter(zip(*columns, strict=True))


def stranger_rows(location: str, options: Mapping[str, str] | None = None) -> Rows:
    """The rows that delta-rs reads from the published files."""
    engine = QueryBuilder().register("t", DeltaTable(location, storage_options=dict(options or {})))
    return rows_of(pa.table(engine.execute("SELECT * FROM t")))


def transaction_ids(lake: lw.Lake, name: str) -> list[str]:
    """The transaction of each version, oldest first."""
    return [v.transaction_id for v in reversed(lake.table(name).history())]


def published_path(lake: lw.Lake, name: str, version: int) -> Path:
    """Where a version is published."""
    return on_disk(lake.warehouse) / commit_path(_head(lake, name).location, version)


def logged_bytes(lake: lw.Lake, name: str, version: int) -> bytes:
    """What the log says a published version is."""
    return _rendered(lake, _head(lake, name), version)


def _head(lake: lw.Lake, name: str) -> Head:
    with context_of(lake).database.read() as session:
        return heads.get(session, TableName.parse(name))


def _check_versions(lake: lw.Lake, head: Head) -> None:
    """Gap-free, up to the head, with timestamps that grow."""
    history = lake.table(str(head.name)).history()
    assert [v.version for v in history] == list(range(head.version, -1, -1)), head.name
    times = [v.timestamp for v in reversed(history)]
    assert all(a < b for a, b in pairwise(times)), head.name


def _check_published(lake: lw.Lake, head: Head, since: int) -> None:
    """Every version is published, byte for byte as the log has it, and nothing else is."""
    directory = on_disk(lake.warehouse) / head.location / "_delta_log"
    names = {p.name for p in directory.iterdir() if p.suffix == ".json"}
    assert names == {f"{v:020d}.json" for v in range(head.version + 1)}, head.name
    for version in range(since, head.version + 1):
        found = (on_disk(lake.warehouse) / commit_path(head.location, version)).read_bytes()
        assert found == _rendered(lake, head, version), (head.name, version)


def _check_pointer(lake: lw.Lake, head: Head) -> None:
    """The catalog names the document of the newest version, and nothing unratified is reachable."""
    table = stranger_table(lake, str(head.name))
    assert table.metadata_location == head.pointer, head.name
    history = reversed(lake.table(str(head.name)).history())
    logged = [(v.version, v.transaction_id) for v in history if v.version]
    summaries = [s.summary.additional_properties for s in table.metadata.snapshots]
    told = [(int(s["lakeward.version"]), s["lakeward.transaction-id"]) for s in summaries]
    # A document lists the newest snapshots, and older ones that a tag refers to or did when the
    # document was shortened; the log has all versions.
    newest, listed = logged[-_LISTED:], set(told)
    assert told[len(told) - len(newest) :] == newest, head.name
    assert told == [entry for entry in logged if entry in listed], head.name
    files = {
        e.data_file.file_path
        for m in (table.current_snapshot().manifests(table.io) if told else ())
        for e in m.fetch_manifest_entry(table.io)
    }
    paths = [f.path for f in lake.table(str(head.name)).files()]
    assert files == {p if is_full(p) else f"{table.location()}/{p}" for p in paths}


def _check_files(lake: lw.Lake, head: Head) -> None:
    """Every file of the newest version is there and whole."""
    root = on_disk(lake.warehouse) / head.location
    with context_of(lake).database.read() as session:
        live = list(files.at(session, head.table_id, head.version))
    for file in live:
        place = on_disk(file.path) if is_full(file.path) else root / file.path
        assert place.stat().st_size == file.size, (head.name, file.path)


def _check_audit(lake: lw.Lake, head: Head) -> None:
    with context_of(lake).database.read() as session:
        assert audit.broken_at(session, head) is None, head.name


def _check_members(lake: lw.Lake, members: list[Head]) -> None:
    """A transaction is in all its tables or in none."""
    seen: Counter[str] = Counter()
    meant: dict[str, int] = {}
    for head in members:
        for version in lake.table(str(head.name)).history():
            seen[version.transaction_id] += 1
            meant[version.transaction_id] = version.members
    assert seen == meant


def _check_rows(lake: lw.Lake, names: list[str]) -> dict[str, Rows]:
    """The lake's own snapshot and a stranger agree on every row."""
    out = {}
    with lake.snapshot() as snapshot:
        for name in names:
            out[name] = rows_of(snapshot.table(name).to_arrow())
            if snapshot.table(name).log_head.format == "iceberg":
                assert out[name] == rows_of(stranger_arrow(lake, name)), name
            else:
                assert out[name] == stranger_rows(
                    lake.table(name).location, context_of(lake).storage.delta_options()
                ), name
    return out


def _rendered(lake: lw.Lake, head: Head, version: int) -> bytes:
    with context_of(lake).database.read() as session:
        commit = commits.full(session, head.table_id, version)
        _, definition = definitions.at(session, head.table_id, version)
    return commit_bytes(head, commit, definition)
