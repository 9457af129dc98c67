"""The store copied, exported and imported, while others go on working.

An export is a zip of one Parquet file per log table, taken from one consistent state, with a
manifest of row counts and checksums. It can be imported into an empty store of either database, so
it is also the way from SQLite to PostgreSQL and back. Locks stay behind: whoever holds one works
with the store that was copied, not with the copy. A backup of a SQLite store is a SQLite file that
can be put in its place as it is.
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
import sqlalchemy as sa

from lakeward.errors import AlreadyExists, InvalidInput, NotFound, StorageError, StoreCorrupt
from lakeward.log import heads, tables
from lakeward.log.database import Database, Session
from lakeward.log.drivers.sqlite import SqliteDatabase
from lakeward.log.migrations import CURRENT
from lakeward.log.statement import Statement
from lakeward.maintain.ownership import check_found
from lakeward.storage.base import Storage

_MANIFEST: Final = "manifest.json"
_FORMAT: Final = "lakeward-store"
_LEFT_OUT: Final = (tables.store, tables.lock, tables.lock_wait)
_EXPORTED: Final = tuple(t for t in tables.ALL if t not in _LEFT_OUT)


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """What was copied: rows by log table."""

    path: Path
    rows: dict[str, int]


def backup(database: Database, target: Path) -> StoreCopy:
    """Copy the store: a SQLite file of a SQLite store, an export of a PostgreSQL one.

    Raises:
        AlreadyExists: The target exists; it is left alone.
    """
    if not isinstance(database, SqliteDatabase):
        return export(database, target)
    with _new_file(target) as aside:
        database.copy_to(aside)
        copy = SqliteDatabase(aside, create=False)
        try:
            with copy.read() as session:
                rows = {str(t.name): _count(session, t) for t in _EXPORTED}
        finally:
            copy.close()
    return StoreCopy(target, rows)


def export(database: Database, target: Path) -> StoreCopy:
    """Export the store as a zip of Parquet files.

    Raises:
        AlreadyExists: The target exists; it is left alone.
    """
    rows: dict[str, int] = {}
    with (
        _new_file(target) as aside,
        tempfile.TemporaryDirectory(dir=target.absolute().parent) as scratch,
        database.read() as session,
        zipfile.ZipFile(aside, "w", zipfile.ZIP_STORED) as archive,
    ):
        checksums = {}
        for table in _EXPORTED:
            part = Path(scratch) / f"{table.name}.parquet"
            rows[str(table.name)] = _write(session, table, part)
            checksums[str(table.name)] = _sha256(part)
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
    """Import an export into an empty store, all of it or nothing.

    Raises:
        WrongWarehouse: The warehouse holds none of its tables. Nothing was changed.
        NotFound: There is no such file.
        StoreCorrupt: The file is no export, or damaged. Nothing was changed.
        AlreadyExists: The store is not empty.
    """
    if not source.exists():
        what = f"There is no file {source}."
        raise NotFound(what, path=str(source))
    try:
        with zipfile.ZipFile(source) as archive, tempfile.TemporaryDirectory() as scratch:
            manifest = _checked_manifest(archive, source)
            archive.extractall(scratch, [f"{t.name}.parquet" for t in _EXPORTED])
            for table in _EXPORTED:
                part = Path(scratch) / f"{table.name}.parquet"
                if _sha256(part) != manifest["sha256"][table.name]:
                    what = f"{source} is damaged: {part.name} has another checksum."
                    raise StoreCorrupt(what, hint="Use another export.")
            with database.write() as session:
                _check_empty(session, database)
                for table in _EXPORTED:
                    _load(session, table, Path(scratch) / f"{table.name}.parquet")
                check_found(storage, heads.all_heads(session))
                database.after_import(session)
    except (zipfile.BadZipFile, KeyError, ValueError, pa.ArrowException) as error:
        what = f"{source} is not an export of a Lakeward store: {error}."
        raise StoreCorrupt(what, hint="Make one with `lakeward store export`.") from error
    return StoreCopy(source, manifest["rows"])


@contextmanager
def _new_file(target: Path) -> Generator[Path]:
    """A file written aside that gets its name only when it is whole."""
    target = target.absolute()
    if target.exists():
        what = f"{target} exists already."
        raise AlreadyExists(what, hint="Choose another name.", path=str(target))
    if not target.parent.is_dir():
        what = f"There is no directory {target.parent}."
        raise InvalidInput(what, path=str(target))
    aside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        aside.touch(exist_ok=False)
        yield aside
        with aside.open("rb") as whole:
            os.fsync(whole.fileno())
        aside.rename(target)
    except OSError as error:
        what = f"{target} cannot be written: {error.strerror}."
        raise StorageError(what, hint="Check permissions and space.", path=str(target)) from error
    finally:
        aside.unlink(missing_ok=True)


def _write(session: Session, table: sa.Table, target: Path) -> int:
    schema = pa.schema([pa.field(c.name, _arrow_type(c)) for c in table.c])
    statement = Statement(sa.select(*table.c))
    count = 0
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for chunk in session.stream(statement):
            columns = list(zip(*chunk, strict=True))
            arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(chunk)
    return count


def _load(session: Session, table: sa.Table, source: Path) -> None:
    names = [c.name for c in table.c]
    session.bulk(table.name, names, _rows(source, names))


def _rows(source: Path, names: list[str]) -> Iterator[tuple[Any, ...]]:
    with pq.ParquetFile(source) as parquet:
        for batch in parquet.iter_batches(batch_size=10_000, columns=names):
            yield from zip(*(c.to_pylist() for c in batch.columns), strict=True)


def _arrow_type(column: sa.Column[Any]) -> pa.DataType:
    return pa.int64() if isinstance(column.type, sa.Integer) else pa.string()


def _count(session: Session, table: sa.Table) -> int:
    return int(session.row(Statement(sa.select(sa.func.count()).select_from(table)))[0])


def _check_empty(session: Session, database: Database) -> None:
    if heads.all_heads(session) or any(_count(session, t) for t in _EXPORTED):
        what = f"The store {database.label} is not empty."
        raise AlreadyExists(what, hint="Import into a new lake.")


def _checked_manifest(archive: zipfile.ZipFile, source: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = orjson.loads(archive.read(_MANIFEST))
    if manifest.get("format") != _FORMAT:
        what = f"{source} is not an export of a Lakeward store."
        raise StoreCorrupt(what)
    if manifest["schema_version"] != CURRENT:
        what = f"{source} has schema version {manifest['schema_version']}, this is {CURRENT}."
        raise StoreCorrupt(what, hint="Import it with the Lakeward that made it, then upgrade.")
    return manifest


def _sha256(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
