"""Checks and applies requests of Iceberg's REST protocol: to commit, and to create tables.

pyiceberg checks the form of a request; the JSON itself is then used.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from lakeward.errors import Conflict, CorruptTable, InvalidInput, MissingExtra
from lakeward.formats.iceberg.definition import definition_of
from lakeward.formats.iceberg.document import Document, parse
from lakeward.formats.iceberg.fresh_ids import FreshIds
from lakeward.formats.iceberg.request_numbers import check_numbers
from lakeward.formats.iceberg.requirements import broken
from lakeward.formats.iceberg.schema_updates import check_added, check_changed
from lakeward.formats.iceberg.updates import apply_updates, empty_table

_ROWS_ONLY: Final = frozenset(
    {"add-snapshot", "set-snapshot-ref", "remove-snapshot-ref", "assign-uuid"}
)
_MAIN: Final = "main"
_UUID: Final = "assert-table-uuid"
_CREATE: Final = "assert-create"
_OWN: Final = "lakeward."
_FORMAT_VERSION: Final = "format-version"
_CLUMSY: Final = (ValueError, TypeError, LookupError, AttributeError)
"""What validators of pyiceberg raise for values of other types than they expect."""


@dataclass(frozen=True)
class TableCommit:
    """A client's commit to one table: requirements that must hold, and updates, both as JSON."""

    namespace: tuple[str, ...]
    name: str
    requirements: tuple[Mapping[str, Any], ...]
    updates: tuple[Mapping[str, Any], ...]

    @property
    def actions(self) -> set[str]:
        """The kinds of the updates."""
        return {update["action"] for update in self.updates}

    @property
    def changes_rows_only(self) -> bool:
        """Whether the commit sets the branch main to a new snapshot, and does nothing else."""
        actions = self.actions
        return actions <= _ROWS_ONLY and "add-snapshot" in actions and self.refs == {_MAIN}

    @property
    def refs(self) -> set[str]:
        """The branches and tags that the commit sets or removes."""
        return {u["ref-name"] for u in self.updates if u["action"].endswith("-snapshot-ref")}

    @property
    def expired(self) -> set[int]:
        """The ids of snapshots that the commit removes."""
        gone = (u["snapshot-ids"] for u in self.updates if u["action"] == "remove-snapshots")
        return {number for numbers in gone for number in numbers}

    @property
    def properties(self) -> dict[str, Any]:
        """The properties that the commit sets."""
        given = (u["updates"] for u in self.updates if u["action"] == "set-properties")
        return {key: value for each in given for key, value in each.items()}

    @property
    def creates(self) -> bool:
        """Whether the commit creates a table that the client has staged before."""
        return any(r["type"] == _CREATE for r in self.requirements)

    @property
    def requires_base(self) -> bool:
        """Whether another commit can break a requirement."""
        return any(r["type"] != _UUID for r in self.requirements)


def parse_commit(body: Any, identifier: tuple[tuple[str, ...], str] | None = None) -> TableCommit:
    """Return the commit of a request's JSON.

    `identifier` is the table in the path of the request, for requests that name none.

    Raises:
        InvalidInput: The request violates the protocol, or sets a property of the lake.
    """
    _check_installed()
    from pydantic import ValidationError
    from pyiceberg.exceptions import ValidationError as Invalid
    from pyiceberg.table import CommitTableRequest

    given = dict(body) if isinstance(body, Mapping) else {}
    given = {"requirements": [], "updates": [], **given}
    check_numbers(given["updates"], "updates")
    if identifier is not None:
        given["identifier"] = {"namespace": list(identifier[0]), "name": identifier[1]}
    if any(map(_has_no_operation, _items(given.get("updates")))):
        # pyiceberg would treat it as an overwrite.
        raise InvalidInput("The summary of a snapshot does not name its operation.")  # noqa: EM101
    try:
        shown = {**given, "updates": _numbered_in(given["updates"])}
        wanted = CommitTableRequest.model_validate_json(orjson.dumps(shown)).identifier
    except (ValidationError, Invalid, *_CLUMSY) as error:
        what = f"The commit is not what Iceberg's REST protocol says: {_said(error)}"
        raise InvalidInput(what) from error
    commit = TableCommit(
        tuple(wanted.namespace.root),
        wanted.name,
        tuple(given["requirements"]),
        tuple(given["updates"]),
    )
    if not commit.updates:
        raise InvalidInput("The commit changes nothing.")  # noqa: EM101
    for update in commit.updates:
        _check_keys(_named_keys(update))
    return commit


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _has_no_operation(update: Any) -> bool:
    """Return whether an update of a request adds a snapshot whose summary has no operation."""
    snapshot = update.get("snapshot") if isinstance(update, Mapping) else None
    summary = snapshot.get("summary") if isinstance(snapshot, Mapping) else None
    return isinstance(summary, Mapping) and summary.get("operation") is None


def _named_keys(update: Mapping[str, Any]) -> list[str]:
    """Return the keys of properties, or of a snapshot's summary, that an update sets or removes."""
    match update["action"]:
        case "set-properties":
            return list(update["updates"])
        case "remove-properties":
            return list(update["removals"])
        case "add-snapshot":
            return list(update["snapshot"].get("summary") or {})
        case _:
            return []


def _check_keys(keys: Iterable[str]) -> None:
    """Raise `InvalidInput` for properties that only the lake sets.

    The lake stores constraints, settings and the authors of snapshots in these.
    """
    kept = next((key for key in keys if key.startswith(_OWN)), None)
    if kept is not None:
        what = f"Property {kept} is changed by the lake only."
        raise InvalidInput(what, hint="Use `lakeward alter`.", property=kept)


def applied(document: Document, commit: TableCommit, table: str) -> Document:
    """Return the document after a commit, if its requirements hold for the current document.

    Raises:
        Conflict: A requirement does not hold: another writer committed meanwhile.
        InvalidInput: An update does not fit the table.
    """
    body = orjson.loads(document.encode())
    for requirement in commit.requirements:
        why = broken(requirement, body)
        if why is not None:
            what = f"Requirement failed: {why}"
            raise Conflict(what, hint="Load the table, and commit again.", table=table)
    after = apply_updates(body, commit.updates)
    if document.snapshots and not _is_replaced(document, commit, after):
        check_changed(document.body, after)
    return _checked(after, document.location, table).following(document)


def _is_replaced(document: Document, commit: TableCommit, after: Mapping[str, Any]) -> bool:
    """Return whether a commit empties the table first, as `CREATE OR REPLACE TABLE` does.

    Such a commit does not remove the branch main of a table that was emptied before.
    """
    emptied = document.current is None or any(
        u["action"] == "remove-snapshot-ref" and u["ref-name"] == _MAIN for u in commit.updates
    )
    return emptied and after.get("current-snapshot-id") not in document.all_snapshots()


def created(commit: TableCommit, table: str) -> Document:
    """Return the first document of a table that a client has staged, without a location.

    Raises:
        InvalidInput: The updates do not define a table.
    """
    return _checked(apply_updates(empty_table(), commit.updates), "", table)


def _checked(body: dict[str, Any], location: str, table: str) -> Document:
    """Return a document; raise `InvalidInput` unless it conforms to Iceberg's specification."""
    from pyiceberg.exceptions import ValidationError
    from pyiceberg.table.metadata import TableMetadataUtil

    text = orjson.dumps(body)
    try:
        TableMetadataUtil.parse_raw(text.decode())
    except (ValidationError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"The commit does not make a table of {table}: {error}"
        raise InvalidInput(what, table=table) from error
    return parse(location, text)


def is_staged(body: Any) -> bool:
    """Return whether a request to create a table only asks for its first metadata."""
    return isinstance(body, Mapping) and bool(body.get("stage-create"))


def staged_document(body: Any, location: str) -> Document:
    """Return the metadata of a table that a client is about to create.

    A location in the request is ignored, as the protocol allows.

    Raises:
        InvalidInput: The request violates the protocol, or sets a property of the lake.
    """
    asked = _parsed_creation(body)
    properties = dict(asked.properties)
    _check_keys(properties)
    version = str(properties.pop(_FORMAT_VERSION, 2))
    if not version.isdecimal():
        raise InvalidInput(f"{version!r} is no format version.")  # noqa: EM102
    try:
        check_added(body["schema"])
        asked.table_schema.check_format_version_compatibility(int(version))
        fresh = FreshIds(body["schema"])
        spec, order = fresh.spec(body.get("partition-spec")), fresh.order(body.get("write-order"))
    except (ValueError, KeyError, TypeError, NotImplementedError) as error:
        if isinstance(error, InvalidInput):
            raise
        what = f"The table cannot be created: {error}"
        raise InvalidInput(what) from error
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": str(uuid.uuid4())},
        {"action": "upgrade-format-version", _FORMAT_VERSION: int(version)},
        {"action": "add-schema", "schema": fresh.schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": spec},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": properties},
    ]
    made = _checked(apply_updates(empty_table(), updates), "", asked.name)
    try:
        definition_of(made)
    except CorruptTable as error:
        # Such as for a key without which pyiceberg makes do.
        raise InvalidInput(f"The table cannot be created: {error.__cause__!r}.") from error  # noqa: EM102
    return made


def _parsed_creation(body: Any) -> Any:
    _check_installed()
    from pydantic import ValidationError
    from pyiceberg.catalog.rest import CreateTableRequest
    from pyiceberg.exceptions import ValidationError as Invalid

    given = {"location": None, "partition-spec": None, "write-order": None}
    if isinstance(body, Mapping):
        given |= body
    check_numbers(given)
    try:
        shown = {**given, "partition-spec": _numbered(given["partition-spec"])}
        return CreateTableRequest.model_validate_json(orjson.dumps(shown))
    except (ValidationError, Invalid, *_CLUMSY) as error:
        what = f"The request is not what Iceberg's REST protocol says: {_said(error)}"
        raise InvalidInput(what) from error


def _numbered_in(updates: Any) -> Any:
    if not isinstance(updates, list):
        return updates
    return [
        {**u, "spec": _numbered(u["spec"])} if isinstance(u, Mapping) and "spec" in u else u
        for u in updates
    ]


def _numbered(spec: Any) -> Any:
    """Return a partition spec with the ids that pyiceberg demands and clients may leave out."""
    if not isinstance(spec, Mapping) or not isinstance(spec.get("fields"), list):
        return spec
    fields = [
        {**f, "field-id": number} if isinstance(f, Mapping) and f.get("field-id") is None else f
        for number, f in enumerate(spec["fields"])
    ]
    return {**spec, "spec-id": spec.get("spec-id") or 0, "fields": fields}


def _said(error: Exception) -> str:
    """Return what pyiceberg says about a request: its first complaint, and where it is."""
    from pydantic import ValidationError

    if isinstance(error, LookupError | AttributeError):
        return f"{error!r}."
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"`{place}`: {first['msg']}." if place else f"{first['msg']}."


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("pyiceberg") is None:
        what = "The Iceberg REST catalog needs pyiceberg."
        raise MissingExtra(what, hint="pip install 'lakeward[iceberg]'", extra="iceberg")
