"""Expiry of an Iceberg table's old metadata, as engines do it."""

from __future__ import annotations

from typing import Any

from pyiceberg.table.update import RemoveSchemasUpdate


def expire_metadata(table: Any) -> None:
    """Expire all snapshots but the current one, and the schemas that none of them needs.

    The same as Spark's `expire_snapshots(clean_expired_metadata => true)`: files of older schemas
    stay, and nothing in the metadata tells any more what their columns were called.

    Args:
        table: As pyiceberg loaded it, with a snapshot that was written under the current schema.
    """
    current = table.current_snapshot()
    old = [s.snapshot_id for s in table.snapshots() if s.snapshot_id != current.snapshot_id]
    if old:
        table.maintenance.expire_snapshots().by_ids(old).commit()
    kept = {table.metadata.current_schema_id, current.schema_id}
    gone = [s.schema_id for s in table.metadata.schemas if s.schema_id not in kept]
    assert gone, "the table has no schema that expires"
    table.catalog.commit_table(
        table, (), (RemoveSchemasUpdate.model_validate({"schema-ids": gone}),)
    )
    table.refresh()
    assert {s.schema_id for s in table.metadata.schemas} == kept
