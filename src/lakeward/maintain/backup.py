"""Backups, exports and imports of the store, while others keep working.

An export is a zip of one Parquet file per log table, from one consistent snapshot, with a manifest
of row counts and checksums. It can be imported into an empty store of either database, so it also
moves a store from SQLite to PostgreSQL and back. Locks are not copied: they belong to the original.
A backup of a SQLite store is a SQLite file that can replace it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.errors import AlreadyExists, InvalidInput, NotFound, StorageError, StoreCorrupt
from lakeward.log import copying, heads, positions
from lakeward.log.copying import COPIED
from lakeward.log.database import Database, Session
from lakeward.log.drivers.sqlite import SqliteDatabase
from lakeward.log.migrations import CURRENT
from lakeward.maintain.ownership import check_found
from lakeward.model import progress
from lakeward.storage.base import Storage

_MANIFEST: Final = "manifest.json"
_FORMAT: Final = "lakeward-store"


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """The file of a copy, and the number of copied rows by log table."""

    path: Path
    rows: dict[str, int]


def backup(database: Database, target: Path) -> StoreCopy:
    """Copy the store: to a SQLite file if it is a SQLite store, otherwise as an export."""
    if not isinstance(database, SqliteDatabase):
        return export(database, target)
    with _new_file(target) as temporary:
        database.copy_to(temporary)
        copy = SqliteDatabase(temporary, create=False)
        try:
            with copy.read() as session:
                rows = {t: copying.count(session, t) for t in COPIED}
        finally:
            copy.close()
    return StoreCopy(target, rows)


def export(database: Database, target: Path) -> StoreCopy:
    """Export the store as a zip of Parquet files; raise `AlreadyExists` if the target exists."""
    rows: dict[str, int] = {}
    with (
        _new_file(target) as temporary,
        tempfile.TemporaryDirectory(dir=target.absolute().parent) as scratch,
        database.read() as session,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
    ):
        checksums = {}
        progress.expect(sum(copying.count(session, table) for table in COPIED))
        for table in COPIED:
            part = Path(scratch) / f"{table}.parquet"
            rows[table] = _write(session, table, part)
            checksums[table] = _sha256(part)
            archive.write(part, part.name)
            part.unlink()
        manifest = {
            "format": _FORMAT,
            "schema_version": CURRENT,
            "rows": rows,
            "sha256": checksums,
        }
        archive.writestr(_MANIFEST, orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
    return StoreCopy(target, rows)


def import_into(database: Database, storage: Storage, source: Path) -> StoreCopy:
    """Import an export into an empty store, all of it or nothing; see `lake.import_store`."""
    if not source.is_file():
        what = f"There is no file {source}."
        raise NotFound(what, path=str(source))
    try:
        with zipfile.ZipFile(source) as archive, tempfile.TemporaryDirectory() as scratch:
            manifest = _checked_manifest(archive, source)
            archive.extractall(scratch, [f"{t}.parquet" for t in COPIED])
            for table in COPIED:
                part = Path(scratch) / f"{table}.parquet"
                if _sha256(part) != manifest["sha256"][table]:
                    what = f"{source} is damaged: {part.name} has another checksum."
                    raise StoreCorrupt(what, hint="Use another export.")
            with database.write() as session:
                _check_empty(session, database)
                progress.expect(sum(manifest["rows"].values()))
                for table in COPIED:
                    copying.insert(session, table, _rows(Path(scratch) / f"{table}.parquet", table))
                check_found(storage, heads.all_heads(session))
                database.after_import(session)
                positions.continue_after(session)
    except (zipfile.BadZipFile, KeyError, ValueError, pa.ArrowException) as error:
        what = f"{source} is not an export of a Lakeward store: {error}."
        raise StoreCorrupt(what, hint="Make one with `lakeward store export`.") from error
    return StoreCopy(source, manifest["rows"])


@contextmanager
def _new_file(target: Path) -> Generator[Path]:
    """Yield a temporary file; at the end sync it and rename it to the target."""
    target = target.absolute()
    if target.exists():
        what = f"{target} exists already."
        raise AlreadyExists(what, hint="Choose another name.", path=str(target))
    if not target.parent.is_dir():
        what = f"There is no directory {target.parent}."
        raise InvalidInput(what, path=str(target))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        with temporary.open("rb") as whole:
            os.fsync(whole.fileno())
        temporary.rename(target)
    except OSError as error:
        what = f"{target} cannot be written: {error.strerror}."
        raise StorageError(what, hint="Check permissions and space.", path=str(target)) from error
    finally:
        temporary.unlink(missing_ok=True)


def _write(session: Session, table: str, target: Path) -> int:
    """Write the rows of a log table as a Parquet file; return their number."""
    kinds = copying.columns(table)
    schema = pa.schema([(n, pa.int64() if whole else pa.string()) for n, whole in kinds.items()])
    count = 0
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for chunk in copying.chunks(session, table):
            columns = list(zip(*chunk, strict=True))
            arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(chunk)
            progress.advance(len(chunk))
    return count


def _rows(source: Path, table: str) -> Iterator[tuple[Any, ...]]:
    names = list(copying.columns(table))
    with pq.ParquetFile(source) as parquet:
        for batch in parquet.iter_batches(batch_size=10_000, columns=names):
            yield from zip(*(c.to_pylist() for c in batch.columns), strict=True)
            progress.advance(batch.num_rows)


def _check_empty(session: Session, database: Database) -> None:
    if heads.all_heads(session) or any(copying.count(session, t) for t in COPIED):
        what = f"The store {database.label} is not empty."
        raise AlreadyExists(what, hint="Import into a new lake.")


def _checked_manifest(archive: zipfile.ZipFile, source: Path) -> dict[str, Any]:
    manifest: Any = orjson.loads(archive.read(_MANIFEST))
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        what = f"{source} is not an export of a Lakeward store."
        raise StoreCorrupt(what)
    if manifest["schema_version"] != CURRENT:
        what = f"{source} has schema version {manifest['schema_version']}, this is {CURRENT}."
        raise StoreCorrupt(what, hint="Import it with the Lakeward that made it, then upgrade.")
    return dict(manifest)


def _sha256(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
