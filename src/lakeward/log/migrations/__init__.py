"""Numbered, forward-only changes of the store's schema.

Opening an older store runs the missing migrations in one transaction; a newer store is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Final

from lakeward.errors import ReadOnlyLake, StoreCorrupt, StoreTooNew
from lakeward.log.binding import get_setting, put_setting
from lakeward.log.database import Database

MIGRATIONS: Final = (
    "m0001_initial",
    "m0002_locks",
    "m0003_iceberg",
    "m0004_change_files",
    "m0005_runs",
    "m0006_writers",
    "m0007_branches",
    "m0008_warehouse",
    "m0009_nan_bounds",
    "m0010_stream_queries",
    "m0011_constraints",
    "m0012_tags",
    "m0013_jobs",
    "m0014_positions",
    "m0015_domains",
    "m0016_retired",
    "m0017_claims",
    "m0018_policies",
    "m0019_lineage",
    "m0020_tokens",
    "m0021_quality",
    "m0022_statistics",
    "m0023_service_levels",
    "m0024_unrecorded",
    "m0025_identity",
    "m0026_service",
    "m0027_positions_of_drops",
    "m0028_queries",
    "m0029_newest_drop",
    "m0030_renames",
    "m0031_statistics_again",
    "m0032_text_by_bytes",
    "m0033_kept_of_dropped",
    "m0034_deletion_vectors",
)
"""Modules of this package, in order; a migration is imported only if a store lacks it."""
CURRENT: Final = len(MIGRATIONS)

_CREATE = (
    "CREATE TABLE IF NOT EXISTS lakeward_store (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)"
)


def migrate(database: Database) -> None:
    """Run the migrations that a store lacks; a store of the current version is only read."""
    if _version(database) == CURRENT:
        return
    with database.write() as session:
        database.lock_schema(session)
        session.script(_CREATE)
        version = _checked(get_setting(session, "schema_version") or "0")
        for migration in after(version):
            for statement in migration.STATEMENTS:
                session.script(database.dialect_ddl(statement))
            if hasattr(migration, "run"):
                migration.run(session)
        put_setting(session, "schema_version", str(CURRENT))


def after(version: int) -> Iterator[ModuleType]:
    """Load the migrations that a store of a schema version lacks, in order."""
    return (import_module(f"{__name__}.{name}") for name in MIGRATIONS[version:])


def check_current(database: Database) -> None:
    """Raise `ReadOnlyLake` if a read-only store lacks migrations, since it cannot be migrated."""
    version = _version(database)
    if version != CURRENT:
        what = f"The store has schema version {version} and must be migrated to {CURRENT} first."
        hint = "Open the lake once as a user who may write."
        raise ReadOnlyLake(what, hint=hint, reason=database.read_only)


def _version(database: Database) -> int:
    if not database.has_table("lakeward_store"):
        return 0
    with database.read() as session:
        return _checked(get_setting(session, "schema_version") or "0")


def _checked(text: str) -> int:
    try:
        version = int(text)
    except ValueError as error:
        what = f"The store says its schema is version {text!r}, which is no number."
        raise StoreCorrupt(what, hint="Restore it from a backup or rebuild it.") from error
    if version > CURRENT:
        what = f"The store has schema version {version}; this Lakeward knows up to {CURRENT}."
        raise StoreTooNew(what, hint="Upgrade lakeward.", store_version=version)
    return version
