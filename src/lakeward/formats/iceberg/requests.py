"""Requests of Iceberg's REST protocol: commits that are checked and applied, tables to create."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from lakeward.errors import Conflict, InvalidInput, MissingExtra, UnsupportedFeature
from lakeward.formats.iceberg.document import Document, parse

_ROWS_ONLY: Final = frozenset(
    {"add-snapshot", "set-snapshot-ref", "remove-snapshot-ref", "assign-uuid"}
)
_MAIN: Final = "main"
_UUID: Final = "assert-table-uuid"
_CREATE: Final = "assert-create"
_OWN: Final = "lakeward."


@dataclass(frozen=True)
class TableCommit:
    """What a client asks of one table: what must still hold, and what changes."""

    namespace: tuple[str, ...]
    name: str
    requirements: tuple[Any, ...]
    updates: tuple[Any, ...]

    @property
    def changes_rows_only(self) -> bool:
        """Whether it moves the branch main to a new snapshot, and does nothing else."""
        actions = {update.action for update in self.updates}
        return actions <= _ROWS_ONLY and "add-snapshot" in actions

    @property
    def creates(self) -> bool:
        """Whether it creates the table, which a client has staged before."""
        return any(r.type == _CREATE for r in self.requirements)

    @property
    def requires_base(self) -> bool:
        """Whether what it requires can be broken by any other commit."""
        return any(r.type != _UUID for r in self.requirements)

    @property
    def changes_rows(self) -> bool:
        """Whether it has a new snapshot."""
        return any(update.action == "add-snapshot" for update in self.updates)


def parse_commit(body: Any, identifier: tuple[tuple[str, ...], str] | None = None) -> TableCommit:
    """A commit from the JSON of a request, which may leave out the table that its path names.

    Raises:
        InvalidInput: It is not what the protocol says.
    """
    _check_installed()
    from pydantic import ValidationError
    from pyiceberg.table import CommitTableRequest

    given = dict(body) if isinstance(body, Mapping) else {}
    if identifier is not None:
        given["identifier"] = {"namespace": list(identifier[0]), "name": identifier[1]}
    if any(map(_has_no_operation, _items(given.get("updates")))):
        # pyiceberg would take it for an overwrite.
        raise InvalidInput("The summary of a snapshot does not name its operation.")  # noqa: EM101
    try:
        found = CommitTableRequest.model_validate_json(orjson.dumps(given))
    except (ValidationError, ValueError, TypeError) as error:
        what = "The commit is not what Iceberg's REST protocol says."
        raise InvalidInput(what) from error
    wanted = found.identifier
    commit = TableCommit(
        tuple(wanted.namespace.root), wanted.name, found.requirements, found.updates
    )
    if not commit.updates:
        raise InvalidInput("The commit changes nothing.")  # noqa: EM101
    for update in commit.updates:
        if update.action.endswith("-snapshot-ref") and update.ref_name != _MAIN:
            what = f"The commit changes the ref {update.ref_name!r}; the lake keeps main only."
            raise UnsupportedFeature(what, hint="Use tags and branches of the lake.")
        kept = next((key for key in _named_keys(update) if key.startswith(_OWN)), None)
        if kept is not None:
            # The lake keeps constraints and settings in these, and by whom a snapshot was made.
            what = f"Property {kept} is changed by the lake only."
            raise InvalidInput(what, hint="Use `lakeward alter`.", property=kept)
    return commit


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _has_no_operation(update: Any) -> bool:
    """Whether an update of a request adds a snapshot whose summary has no operation."""
    snapshot = update.get("snapshot") if isinstance(update, Mapping) else None
    summary = snapshot.get("summary") if isinstance(snapshot, Mapping) else None
    return isinstance(summary, Mapping) and summary.get("operation") is None


def _named_keys(update: Any) -> list[str]:
    """The keys of properties, or of a snapshot's summary, that an update sets or removes."""
    match update.action:
        case "set-properties":
            return list(update.updates)
        case "remove-properties":
            return list(update.removals)
        case "add-snapshot" if update.snapshot.summary is not None:
            return list(update.snapshot.summary.additional_properties)
        case _:
            return []


def applied(document: Document, commit: TableCommit, table: str) -> Document:
    """The document that a commit leads to, if what it requires of the current one holds.

    Raises:
        Conflict: A requirement does not hold: another writer committed meanwhile.
        InvalidInput: An update does not fit the table.
    """
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.metadata import TableMetadataUtil
    from pyiceberg.table.update import update_table_metadata

    base = TableMetadataUtil.parse_raw(document.encode().decode())
    for requirement in commit.requirements:
        try:
            requirement.validate(base)
        except CommitFailedException as error:
            what = f"Table {table} is not as the commit requires: {error}"
            raise Conflict(what, hint="Load the table, and commit again.", table=table) from error
    try:
        new = update_table_metadata(
            base, commit.updates, enforce_validation=True, metadata_location=document.location
        )
    except (ValueError, KeyError, TypeError, NotImplementedError) as error:
        what = f"The commit does not fit table {table}: {error}"
        raise InvalidInput(what, table=table) from error
    return parse(document.location, new.model_dump_json().encode())


def created(commit: TableCommit, table: str) -> Document:
    """The first document of a table that a client has staged, without a place.

    Raises:
        InvalidInput: The updates do not define a table.
    """
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadataV1
    from pyiceberg.table.update import update_table_metadata

    empty = TableMetadataV1.model_construct(last_column_id=-1, schema=Schema())
    try:
        new = update_table_metadata(empty, commit.updates, enforce_validation=True)
    except (ValueError, KeyError, TypeError, AttributeError, NotImplementedError) as error:
        what = f"The commit does not create table {table}: {error}"
        raise InvalidInput(what, table=table) from error
    return parse("", new.model_dump_json().encode())


def staged_document(body: Any, location: str) -> bytes:
    """The metadata of a table that a client is about to create, as JSON.

    Raises:
        InvalidInput: The request is not what the protocol says.
        UnsupportedFeature: It asks for what the lake does not keep.
    """
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

    asked = _parsed_creation(body)
    try:
        made = new_table_metadata(
            asked.table_schema,
            asked.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            UNSORTED_SORT_ORDER,
            location,
            {"format-version": "2", **asked.properties},
        )
    except (ValueError, KeyError, TypeError, NotImplementedError) as error:
        what = f"The table cannot be created: {error}"
        raise InvalidInput(what) from error
    return made.model_dump_json().encode()


def table_to_create(body: Any) -> dict[str, Any]:
    """The arguments of `lake.create` for a table that a client asks for, and its `name`.

    Raises:
        InvalidInput: The request is not what the protocol says.
        UnsupportedFeature: It asks for what the lake does not keep.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    asked = _parsed_creation(body)
    schema, spec = asked.table_schema, asked.partition_spec
    fields = () if spec is None else spec.fields
    return {
        "name": asked.name,
        "schema": schema_to_pyarrow(schema, include_field_ids=False),
        "partition_by": [_partition(str(f.transform), schema, f.source_id) for f in fields],
        "properties": dict(asked.properties) or None,
    }


def is_staged(body: Any) -> bool:
    """Whether a request to create a table only asks how it would begin."""
    return isinstance(body, Mapping) and bool(body.get("stage-create"))


def _parsed_creation(body: Any) -> Any:
    _check_installed()
    from pydantic import ValidationError
    from pyiceberg.catalog.rest import CreateTableRequest

    given = {"location": None, "partition-spec": None, "write-order": None}
    if isinstance(body, Mapping):
        given |= body
    try:
        asked = CreateTableRequest.model_validate_json(orjson.dumps(given))
    except (ValidationError, ValueError, TypeError) as error:
        what = "The request is not what Iceberg's REST protocol says."
        raise InvalidInput(what) from error
    if asked.location is not None:
        what = "The lake chooses the locations of its tables."
        raise UnsupportedFeature(what, hint="Leave out the location.")
    if asked.write_order is not None and asked.write_order.fields:
        what = "The lake keeps no sort order of a table."
        raise UnsupportedFeature(what, hint="Leave out the order.")
    return asked


def _partition(transform: str, schema: Any, source: int) -> str:
    """A partition field as `lake.create` takes it: `day(ts)`, `bucket(16, id)`, `region`."""
    column = schema.find_column_name(source)
    if column is None:
        what = f"The table is partitioned by column {source}, which it does not have."
        raise InvalidInput(what)
    name, bracket, number = transform.rstrip("]").partition("[")
    if bracket:
        return f"{name}({number}, {column})"
    return column if name == "identity" else f"{name}({column})"


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("pyiceberg") is None:
        what = "The Iceberg REST catalog needs pyiceberg."
        raise MissingExtra(what, hint="pip install 'lakeward[iceberg]'", extra="iceberg")
