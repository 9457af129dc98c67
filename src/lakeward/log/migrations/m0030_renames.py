"""Add an index by which the former names of a table are found without reading its commits."""

from __future__ import annotations

STATEMENTS = (
    """CREATE INDEX lakeward_commit_rename ON lakeward_commit (operation, table_id, version)
    WHERE operation = 'RENAME TABLE'""",
)
