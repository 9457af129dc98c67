"""What behaviour tests do with lakes over and over: append, look, and compare before with after."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakeward as lw
from lakeward.log import tables
from lakeward.log.statement import Statement
from lakeward.storage.object_store.storage import ObjectStorage
from tests.support.inside import context_of
from tests.support.s3 import on_disk


def append(lake: lw.Lake, name: str, data: Any) -> int:
    """Append in a transaction of its own; the new version."""
    with lake.transaction() as tx:
        tx.append(name, data)
    return tx.commit().versions[name]


def overwrite(lake: lw.Lake, name: str, data: Any, *, where: str | None = None) -> int:
    """Overwrite in a transaction of its own; the new version."""
    with lake.transaction() as tx:
        tx.overwrite(name, data, where=where)
    return tx.commit().versions[name]


def delete(lake: lw.Lake, name: str, where: str) -> int:
    """Delete in a transaction of its own; the new version."""
    with lake.transaction() as tx:
        tx.delete(name, where=where)
    return tx.commit().versions[name]


def column(source: pa.Table, name: str = "id") -> list[Any]:
    """A column's values, sorted, missing ones first."""
    return sorted(source.column(name).to_pylist(), key=lambda v: (v is not None, v))


def ids(lake: lw.Lake, name: str, *, where: str | None = None) -> list[Any]:
    """The sorted ids that a table has now."""
    return column(lake.table(name).to_arrow(columns=["id"], where=where))


def data_files(lake: lw.Lake, name: str, pattern: str = "*.parquet") -> set[str]:
    """The data files that lie below a table's location, whether the log knows them or not."""
    _wait_for_uploads(lake)
    location = on_disk(lake.table(name).location)
    found = {str(p.relative_to(location)) for p in location.rglob(pattern)}
    return {p for p in found if not p.startswith("_delta_log/")}


def log_files(lake: lw.Lake, name: str) -> list[Path]:
    """The published commits of a table, oldest first."""
    return sorted((on_disk(lake.table(name).location) / "_delta_log").glob("*.json"))


def picture(lake: lw.Lake) -> dict[str, Any]:
    """All that a lake is: the rows of its store, and the files of its warehouse.

    Transactions that came to nothing may leave their registration, so of those only the open ones
    count, whose leases are renewed meanwhile. Violations are recorded of failed ones too. The
    store's own files are represented by its rows. Background work of earlier commits is waited for.
    """
    lake._background.wait()
    return {"store": _store(lake), "files": _files(str(on_disk(lake.warehouse)))}


@contextmanager
def unchanged(lake: lw.Lake) -> Generator[None]:
    """Asserts that the block leaves no trace in the store and on disk."""
    before = picture(lake)
    yield
    after = picture(lake)
    changed = {kind: before[kind].items() ^ after[kind].items() for kind in before}
    assert not any(changed.values()), changed


def _wait_for_uploads(lake: lw.Lake) -> None:
    storage = context_of(lake).storage
    if isinstance(storage, ObjectStorage):
        uploads = storage._uploads
        for name in list(uploads._under_way):
            uploads.wait(name)


def _store(lake: lw.Lake) -> dict[str, frozenset[Any]]:
    out = {}
    with context_of(lake).database.read() as session:
        for table in tables.ALL:
            if table is tables.violation:
                continue
            wanted = "WHERE state = 'open'" if table.name == "lakeward_transaction" else ""
            columns = ", ".join(name for name in table.columns if name != "lease_until_ms")
            rows = session.rows(Statement(f"SELECT {columns} FROM {table.name} {wanted}"))
            out[table.name] = frozenset(map(tuple, rows))
    return out


def _files(root: str) -> dict[str, tuple[int, int, int]]:
    """Each file with what would be different had it been touched."""
    out = {}
    stack = [root] if Path(root).is_dir() else []
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    stack.extend([entry.path] if entry.name != ".lakeward" else [])
                elif not entry.name.startswith("lakeward.db"):
                    found = entry.stat()
                    out[entry.path] = (found.st_size, found.st_mtime_ns, found.st_ino)
    return out
