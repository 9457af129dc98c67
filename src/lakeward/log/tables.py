"""The log's tables, as SQLAlchemy Core describes them. `migrations` creates them.

State at a version is a range: a file belongs to version `v` when `added_version <= v` and
`removed_version > v`; a file that nobody removed has `removed_version = LIVE`. Names carry a prefix
because the database may be shared with catalogs and other applications.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text

metadata = MetaData()

store = Table(
    "lakeward_store",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

head = Table(
    "lakeward_head",
    metadata,
    Column("table_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("uuid", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("format", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("guarded", Integer, nullable=False),
    Column("drift", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("definition_id", BigInteger, nullable=False),
    Column("published", BigInteger, nullable=False),
    Column("audit_seq", BigInteger, nullable=False),
    Column("audit_hash", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("dropped_ms", BigInteger),
    Column("pointer", Text),
)

definition = Table(
    "lakeward_definition",
    metadata,
    Column("table_id", BigInteger, primary_key=True),
    Column("definition_id", BigInteger, primary_key=True),
    Column("from_version", BigInteger, nullable=False),
    Column("until_version", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)

transaction = Table(
    "lakeward_transaction",
    metadata,
    Column("transaction_id", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("isolation", Text, nullable=False),
    Column("message", Text),
    Column("process", Text, nullable=False),
    Column("opened_ms", BigInteger, nullable=False),
    Column("lease_until_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger),
)

commit = Table(
    "lakeward_commit",
    metadata,
    Column("table_id", BigInteger, primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("transaction_id", Text, nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("operation", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("definition_id", BigInteger),
    Column("info", Text, nullable=False),
)

file = Table(
    "lakeward_file",
    metadata,
    Column("table_id", BigInteger, nullable=False),
    Column("added_version", BigInteger, nullable=False),
    Column("ordinal", BigInteger, nullable=False),
    Column("removed_version", BigInteger, nullable=False),
    Column("path", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("row_count", BigInteger),
    Column("modified_ms", BigInteger, nullable=False),
    Column("partition", Text),
    Column("stats", Text),
    Column("deletion_vector", Text),
    Column("extra", Text),
)

file_stat = Table(
    "lakeward_file_stat",
    metadata,
    Column("table_id", BigInteger, primary_key=True),
    Column("field_id", BigInteger, primary_key=True),
    Column("level", Integer, primary_key=True),
    Column("min_key", BigInteger, primary_key=True),
    Column("added_version", BigInteger, primary_key=True),
    Column("ordinal", BigInteger, primary_key=True),
    Column("max_key", BigInteger, nullable=False),
    Column("nulls", BigInteger),
)

change_file = Table(
    "lakeward_change_file",
    metadata,
    Column("table_id", BigInteger, primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("ordinal", BigInteger, primary_key=True),
    Column("path", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("partition", Text),
    Column("extra", Text),
)

branch = Table(
    "lakeward_branch",
    metadata,
    Column("table_id", BigInteger, primary_key=True),
    Column("directory", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("name", Text),
    Column("base_version", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

clone = Table(
    "lakeward_clone",
    metadata,
    Column("table_id", BigInteger, primary_key=True),
    Column("source_id", BigInteger, primary_key=True),
    Column("source_version", BigInteger, primary_key=True),
)

app_transaction = Table(
    "lakeward_app_transaction",
    metadata,
    Column("table_id", BigInteger, primary_key=True),
    Column("app_id", Text, primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("app_version", BigInteger, nullable=False),
    Column("updated_ms", BigInteger),
)

pin = Table(
    "lakeward_pin",
    metadata,
    Column("pin_id", Text, primary_key=True),
    Column("table_id", BigInteger, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("lease_until_ms", BigInteger, nullable=False),
)

audit = Table(
    "lakeward_audit",
    metadata,
    Column("table_id", BigInteger, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("transaction_id", Text),
    Column("version", BigInteger),
    Column("detail", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

lock = Table(
    "lakeward_lock",
    metadata,
    Column("table_id", BigInteger, primary_key=True),
    Column("transaction_id", Text, primary_key=True),
    Column("mode", Text, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
)

lock_wait = Table(
    "lakeward_lock_wait",
    metadata,
    Column("table_id", BigInteger, primary_key=True),
    Column("transaction_id", Text, primary_key=True),
    Column("mode", Text, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
)

input_file = Table(
    "lakeward_input",
    metadata,
    Column("consumer", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("modified_ms", BigInteger, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("transaction_id", Text, nullable=False),
)

cursor = Table(
    "lakeward_cursor",
    metadata,
    Column("consumer", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("table_id", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("transaction_id", Text, nullable=False),
    Column("reader", Text),
)

run = Table(
    "lakeward_run",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("pipeline", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger, nullable=False),
    Column("bundle", Text, nullable=False),
)

writer = Table(
    "lakeward_writer",
    metadata,
    Column("table_id", BigInteger, primary_key=True),
    Column("writer_id", Text, primary_key=True),
    Column("instance", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("opened_ms", BigInteger, nullable=False),
    Column("epoch", BigInteger),
    Column("transaction_id", Text),
    Column("progress", Text),
)

iceberg_table = Table(
    "iceberg_tables",
    metadata,
    Column("catalog_name", Text, primary_key=True),
    Column("table_namespace", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    Column("metadata_location", Text),
    Column("previous_metadata_location", Text),
    Column("iceberg_type", Text),
)

iceberg_namespace = Table(
    "iceberg_namespace_properties",
    metadata,
    Column("catalog_name", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("property_key", Text, primary_key=True),
    Column("property_value", Text, nullable=False),
)

ALL: tuple[sa.Table, ...] = tuple(metadata.sorted_tables)
