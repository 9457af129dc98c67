"""Index the files that have deletion vectors, so that totals read no other rows of files."""

from __future__ import annotations

STATEMENTS = (
    """CREATE INDEX IF NOT EXISTS lakeward_file_vector
        ON lakeward_file (table_id, removed_version, added_version)
        WHERE deletion_vector IS NOT NULL""",
)
