"""Creates metadata documents of Iceberg views, and changes them by the updates of REST clients.

The lake stores the views that engines define; it does not run their SQL. Ids of versions and
schemas are assigned here, as the view specification requires: an equal version or schema that
exists is reused.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from lakeward.errors import Conflict, CorruptTable, InvalidInput
from lakeward.formats.iceberg.extra import pyiceberg

_LAST_ADDED: Final = -1
_KEPT: Final = "version.history.num-entries"
_KEPT_UNLESS_SET: Final = 10
_MAY_DROP_DIALECT: Final = "replace.drop-dialect.allowed"
_OF_VERSION: Final = ("summary", "representations", "default-catalog", "default-namespace")


def created(body: Any, location: str) -> dict[str, Any]:
    """Return the first document of a view that a client wants to create.

    Raises:
        InvalidInput: The request violates the protocol.
    """
    asked = body if isinstance(body, Mapping) else {}
    version = dict(_mapping(asked.get("view-version"), "view-version"))
    empty = {
        "view-uuid": str(uuid.uuid4()),
        "format-version": 1,
        "location": location,
        "current-version-id": 0,
        "versions": [],
        "version-log": [],
        "schemas": [],
        "properties": {},
    }
    updates = [
        {"action": "add-schema", "schema": asked.get("schema")},
        {"action": "add-view-version", "view-version": {**version, "schema-id": _LAST_ADDED}},
        {"action": "set-current-view-version", "view-version-id": _LAST_ADDED},
        {"action": "set-properties", "updates": asked.get("properties") or {}},
    ]
    return changed(empty, updates)


def check_requirements(document: Mapping[str, Any], requirements: Any, view: str) -> None:
    """Check that a view meets the requirements of a commit.

    Raises:
        Conflict: The view was replaced by another one.
        InvalidInput: The requirements violate the protocol.
    """
    for one in requirements if isinstance(requirements, list) else [requirements or {}]:
        kind = _mapping(one, "requirement").get("type")
        if kind is None and not one:
            continue
        if kind != "assert-view-uuid":
            raise InvalidInput(f"The lake knows no requirement {kind!r} of a view.")  # noqa: EM102
        if one.get("uuid") != document["view-uuid"]:
            what = f"View {view} was replaced by another one."
            raise Conflict(what, hint="Load the view, and commit again.", table=view)


def changed(document: Mapping[str, Any], updates: Any) -> dict[str, Any]:
    """Return the document after the updates of a client.

    Raises:
        InvalidInput: The updates do not fit the view, or violate the protocol.
    """
    if not isinstance(updates, list):
        raise InvalidInput("The commit has no list of updates.")  # noqa: EM101
    work = _Changing(orjson.loads(orjson.dumps(document)))
    for update in updates:
        work.apply(_mapping(update, "update"))
    return work.finished()


def parse(location: str, data: bytes) -> dict[str, Any]:
    """Return the document in a view's metadata file; raise `CorruptTable` if it is damaged."""
    try:
        found = orjson.loads(data)
        _check(found)
    except (ValueError, TypeError) as error:
        what = f"{location} is no metadata of a view."
        raise CorruptTable(what, path=location) from error
    return dict(found)


class _Changing:
    """A document while updates are applied."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body
        self._before = self._version(body["current-version-id"])
        self._schema: int | None = None
        self._added: list[int] = []

    def apply(self, update: Mapping[str, Any]) -> None:
        """Apply one update."""
        body = self._body
        match update.get("action"):
            case "assign-uuid":
                if update.get("uuid") != body["view-uuid"]:
                    raise InvalidInput("The uuid of a view cannot be changed.")  # noqa: EM101
            case "upgrade-format-version":
                if update.get("format-version") != body["format-version"]:
                    raise InvalidInput("Views have one format version.")  # noqa: EM101
            case "set-location":
                if update.get("location") != body["location"]:
                    raise InvalidInput("The lake chooses the locations of views.")  # noqa: EM101
            case "set-properties":
                given = _mapping(update.get("updates"), "updates")
                body["properties"] = {**body["properties"], **given}
            case "remove-properties":
                gone = set(_texts(update.get("removals")))
                kept = body["properties"].items()
                body["properties"] = {k: v for k, v in kept if k not in gone}
            case "add-schema":
                self._add_schema(dict(_mapping(update.get("schema"), "schema")))
            case "add-view-version":
                self._add_version(dict(_mapping(update.get("view-version"), "view-version")))
            case "set-current-view-version":
                self._set_current(update.get("view-version-id"))
            case other:
                raise InvalidInput(f"The lake knows no update {other!r} of a view.")  # noqa: EM102

    def finished(self) -> dict[str, Any]:
        """Return the document after all updates, without versions that the view need not keep."""
        body = self._body
        _check(body)
        current = self._version(body["current-version-id"])
        if current is None:
            raise InvalidInput("The view has no current version.")  # noqa: EM101
        may_drop = str(body["properties"].get(_MAY_DROP_DIALECT, "false")).lower() == "true"
        if self._before is not None and not may_drop:
            lost = _dialects(self._before) - _dialects(current)
            if lost:
                shown = ", ".join(sorted(lost))
                what = f"Cannot replace view due to loss of view dialects: {shown}."
                raise InvalidInput(what, hint=f"Set {_MAY_DROP_DIALECT}=true to allow it.")
        self._forget(current)
        return body

    def _add_schema(self, schema: dict[str, Any]) -> None:
        schema.pop("schema-id", None)
        known = self._body["schemas"]
        same = [s["schema-id"] for s in known if _columns(s) == _columns(schema)]
        self._schema = same[0] if same else max((s["schema-id"] for s in known), default=-1) + 1
        if not same:
            known.append({**schema, "schema-id": self._schema})

    def _add_version(self, version: dict[str, Any]) -> None:
        if version.get("schema-id") == _LAST_ADDED:
            version["schema-id"] = self._schema
        if version.get("schema-id") not in {s["schema-id"] for s in self._body["schemas"]}:
            raise InvalidInput("The version of the view has no known schema.")  # noqa: EM101
        found = _sql_dialects(version)
        if len(set(found)) != len(found):
            what = "Invalid view version: Cannot add multiple queries for dialect "
            twice = next(d for d in found if found.count(d) > 1)
            raise InvalidInput(what + twice)
        known = self._body["versions"]
        same = [v["version-id"] for v in known if _meaning(v) == _meaning(version)]
        number = same[0] if same else max((v["version-id"] for v in known), default=0) + 1
        if not same:
            known.append({**version, "version-id": number})
        self._added.append(number)

    def _set_current(self, number: Any) -> None:
        if number == _LAST_ADDED and self._added:
            number = self._added[-1]
        version = self._version(number)
        if version is None:
            raise InvalidInput(f"The view has no version {number!r}.")  # noqa: EM102
        if number != self._body["current-version-id"]:
            self._body["current-version-id"] = number
            entry = {"version-id": number, "timestamp-ms": version.get("timestamp-ms")}
            self._body["version-log"].append(entry)

    def _version(self, number: Any) -> dict[str, Any] | None:
        return next((v for v in self._body["versions"] if v["version-id"] == number), None)

    def _forget(self, current: Mapping[str, Any]) -> None:
        """Remove the oldest versions if there are more than the view keeps."""
        text = str(self._body["properties"].get(_KEPT, _KEPT_UNLESS_SET))
        if not text.isdecimal() or int(text) == 0:
            raise InvalidInput(f"{_KEPT} must be positive but was {text}.")  # noqa: EM102
        versions = self._body["versions"]
        own = {*self._added, current["version-id"]}
        count = max(int(text), len(own))
        if len(versions) <= count:
            return
        newest = sorted((v["version-id"] for v in versions), reverse=True)
        others = [n for n in newest if n != current["version-id"]]
        kept = {current["version-id"], *others[: count - 1]}
        self._body["versions"] = [v for v in versions if v["version-id"] in kept]
        log: list[Any] = []
        for entry in self._body["version-log"]:
            # Entries before a removed version would show a history with a gap.
            log = [*log, entry] if entry["version-id"] in kept else []
        self._body["version-log"] = log


def _check(body: Any) -> None:
    """Raise `InvalidInput` unless a document conforms to the view specification."""
    kind = pyiceberg("view.metadata").ViewMetadata
    try:
        kind.model_validate_json(orjson.dumps(body))
    except (ValueError, TypeError) as error:
        what = "The view is not what Iceberg's view specification says."
        raise InvalidInput(what) from error


def _columns(schema: Mapping[str, Any]) -> Any:
    return schema.get("fields"), schema.get("identifier-field-ids") or []


def _meaning(version: Mapping[str, Any]) -> Any:
    """Return a value that is equal for two versions of a view if they behave alike."""
    return [version.get(name) for name in _OF_VERSION], version.get("schema-id")


def _dialects(version: Mapping[str, Any]) -> set[str]:
    return set(_sql_dialects(version))


def _sql_dialects(version: Mapping[str, Any]) -> list[str]:
    found = version.get("representations")
    if not isinstance(found, list):
        raise InvalidInput("The version of the view has no representations.")  # noqa: EM101
    return [str(_mapping(one, "representation").get("dialect")).lower() for one in found]


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"`{name}` of the request is no JSON object.")  # noqa: EM102
    return value


def _texts(value: Any) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidInput("The request has a list that is not one of texts.")  # noqa: EM101
    return value
