"""A log with thousands of tables, for tests of what reads all of them.

The rows that one real table has in the log are copied under other names, which takes a second where
creating the tables takes minutes. The copies have no files, and are recorded as published.
"""

from __future__ import annotations

import lakeward as lw
from lakeward.log.statement import Statement
from tests.support.inside import context_of

_NUMBERS = """WITH RECURSIVE number(n) AS
    (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :count)"""
_OWN = "(SELECT max(table_id) FROM lakeward_head) + n"


def _copy(table: str, columns: str, values: str, condition: str) -> Statement:
    return Statement(
        f"""INSERT INTO {table} ({columns})
        {_NUMBERS} SELECT {values} FROM {table}, number WHERE {condition}"""
    )


_HEAD = """namespace, format, guarded, drift, version, timestamp_ms, definition_id, audit_seq,
    audit_hash, created_ms, policy_id"""
_DEFINITION = "definition_id, from_version, until_version, body"
_COMMIT = "version, transaction_id, timestamp_ms, operation, actor, definition_id, info, position"
_FILE = """added_version, ordinal, removed_version, path, size, row_count, modified_ms, partition,
    stats"""
_WRITER = "writer_id, instance, generation, actor, opened_ms, epoch, transaction_id, progress"
_VIOLATION = "at_ms, constraint_name, transaction_id, actor, action, reason, row_count, sample"
_OF_TABLES = {
    "lakeward_definition": _DEFINITION,
    "lakeward_commit": _COMMIT,
    "lakeward_file": _FILE,
    "lakeward_writer": _WRITER,
}
# Heads come last: the others count their ids from the newest head.
_STATEMENTS = (
    *(
        _copy(table, f"table_id, {columns}", f"{_OWN}, {columns}", "table_id = :id")
        for table, columns in _OF_TABLES.items()
    ),
    _copy(
        "lakeward_violation",
        f"violation_id, table_name, {_VIOLATION}",
        f"violation_id || n, table_name || n, {_VIOLATION}",
        "table_name = :name",
    ),
    _copy(
        "lakeward_head",
        f"table_id, uuid, name, location, published, {_HEAD}",
        f"{_OWN}, uuid || n, name || n, location || n, version, {_HEAD}",
        "table_id = :id",
    ),
)
_ID = Statement("SELECT table_id FROM lakeward_head WHERE namespace || '.' || name = :name")


def multiply(lake: lw.Lake, name: str, count: int) -> None:
    """Add `count` copies of a table to the log of a lake: `name1`, `name2` and so on."""
    with context_of(lake).database.write() as session:
        (own,) = session.row(_ID, {"name": name})
        for statement in _STATEMENTS:
            session.run(statement, {"id": own, "name": name, "count": count})
