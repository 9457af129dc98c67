"""The names and columns of the log's tables. `migrations` creates them.

State at a version is a range: a file belongs to version `v` when `added_version <= v` and
`removed_version > v`; a live file has `removed_version = LIVE`. Names carry a prefix because the
database may be shared with catalogs and other applications.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class LogTable(NamedTuple):
    """A table of the log.

    Attributes:
        columns: The names of its columns, in the order in which they were created.
        texts: The columns that hold text; the others hold whole numbers.
    """

    name: str
    columns: tuple[str, ...]
    texts: frozenset[str]


_made: list[LogTable] = []


def _table(name: str, columns: str) -> LogTable:
    """Return a table from its columns: `name` for whole numbers, `name:text` for text."""
    pairs = [column.partition(":")[::2] for column in columns.split()]
    texts = frozenset(column for column, kind in pairs if kind)
    made = LogTable(name, tuple(column for column, _ in pairs), texts)
    _made.append(made)
    return made


store = _table("lakeward_store", "key:text value:text")
head = _table(
    "lakeward_head",
    "table_id uuid:text namespace:text name:text format:text location:text guarded"
    " drift:text version timestamp_ms definition_id published audit_seq audit_hash:text"
    " created_ms dropped_ms pointer:text policy_id dropped_position",
)
definition = _table(
    "lakeward_definition",
    "table_id definition_id from_version until_version body:text",
)
transaction = _table(
    "lakeward_transaction",
    "transaction_id:text state:text actor:text isolation:text message:text process:text"
    " opened_ms lease_until_ms ended_ms",
)
commit = _table(
    "lakeward_commit",
    "table_id version transaction_id:text timestamp_ms operation:text actor:text"
    " definition_id info:text position",
)
file = _table(
    "lakeward_file",
    "table_id added_version ordinal removed_version path:text size row_count modified_ms"
    " partition:text stats:text deletion_vector:text extra:text",
)
file_stat = _table(
    "lakeward_file_stat",
    "table_id field_id level min_key added_version ordinal max_key nulls",
)
change_file = _table(
    "lakeward_change_file",
    "table_id version ordinal path:text size partition:text extra:text",
)
branch = _table(
    "lakeward_branch",
    "table_id directory:text owner:text name:text base_version actor:text created_ms",
)
clone = _table("lakeward_clone", "table_id source_id source_version")
app_transaction = _table(
    "lakeward_app_transaction",
    "table_id app_id:text version app_version updated_ms",
)
domain = _table("lakeward_domain", "table_id domain:text version configuration:text")
pin = _table("lakeward_pin", "pin_id:text table_id version actor:text lease_until_ms")
audit = _table(
    "lakeward_audit",
    "table_id seq at_ms actor:text action:text transaction_id:text version detail:text hash:text",
)
lock = _table("lakeward_lock", "table_id transaction_id:text mode:text since_ms")
lock_wait = _table("lakeward_lock_wait", "table_id transaction_id:text mode:text since_ms")
input_file = _table(
    "lakeward_input",
    "consumer:text source:text path:text size modified_ms checksum:text transaction_id:text",
)
cursor = _table(
    "lakeward_cursor",
    "consumer:text source:text table_id version transaction_id:text reader:text",
)
run = _table(
    "lakeward_run",
    "run_id:text pipeline:text state:text started_ms ended_ms bundle:text",
)
writer = _table(
    "lakeward_writer",
    "table_id writer_id:text instance:text generation actor:text opened_ms epoch"
    " transaction_id:text progress:text",
)
tag = _table(
    "lakeward_tag", "name:text moment_ms whole actor:text message:text created_ms position"
)
tagged = _table("lakeward_tagged", "name:text table_id version")
consumer = _table("lakeward_consumer", "name:text position transaction_id:text actor:text moved_ms")
foreign_key = _table("lakeward_foreign_key", "table_id name:text parent:text")
violation = _table(
    "lakeward_violation",
    "violation_id:text at_ms table_name:text constraint_name:text transaction_id:text actor:text"
    " action:text reason:text row_count sample:text",
)
job = _table(
    "lakeward_job",
    "job_id:text kind:text table_name:text state:text actor:text process:text started_ms ended_ms"
    " lease_until_ms units units_done done:text error:text",
)
retired = _table("lakeward_retired", "table_id from_version until_version")
promise = _table("lakeward_promise", "table_id kept_from pruned_to cleaned_to")
policy = _table(
    "lakeward_policy",
    "policy_id pattern:text body:text from_ms until_id actor:text message:text transaction_id:text",
)
policy_version = _table("lakeward_policy_version", "table_id policy_id from_version")
token = _table(
    "lakeward_token",
    "token_id:text digest:text name:text role:text tables:text actor:text created_ms expires_ms"
    " revoked_ms",
)
claim = _table("lakeward_claim", "name:text transaction_id:text")
unrecorded = _table(
    "lakeward_unrecorded",
    "entry_id:text table_id transaction_id:text paths:text begun_ms",
)
lineage = _table("lakeward_lineage", "transaction_id:text body:text")
identity = _table("lakeward_identity", "uuid:text field_id taken")
query = _table("lakeward_query", "table_id at_ms took_ms")
service_level = _table("lakeward_service_level", "name:text body:text actor:text set_ms")
statistics = _table("lakeward_statistics", "table_id version body:text")
sketch = _table("lakeward_sketch", "table_id field_id version body:text")
quality = _table("lakeward_quality", "table_id name:text version measured_ms body:text")
once = _table("lakeward_once", "key:text what:text actor:text made_ms")
pending = _table("lakeward_pending", "transaction_id:text seq body:text actor:text added_ms")
member = _table("lakeward_member", "name:text role:text tables:text actor:text created_ms")
iceberg_table = _table(
    "iceberg_tables",
    "catalog_name:text table_namespace:text table_name:text metadata_location:text"
    " previous_metadata_location:text iceberg_type:text",
)
iceberg_namespace = _table(
    "iceberg_namespace_properties",
    "catalog_name:text namespace:text property_key:text property_value:text",
)

ALL: Final = tuple(sorted(_made, key=lambda table: table.name))
