"""Applies the updates of Iceberg's REST protocol to a table's metadata document.

The document is changed as JSON, so that entries that the lake does not know are kept. pyiceberg has
a function for this too, which drops unknown entries and does not write version 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from lakeward.errors import InvalidInput
from lakeward.formats.iceberg.definition import schemas_of, specs_of
from lakeward.formats.iceberg.schema_updates import check_added, parts_of
from lakeward.model.clock import now_ms

_LAST_ADDED: Final = -1
_MAIN: Final = "main"
_FIRST_PARTITION_ID: Final = 1000
_VERSIONS: Final = (1, 2, 3)
_ROW_IDS_SINCE: Final = 3
_SEQUENCES_SINCE: Final = 2
_REF_SETTINGS: Final = (
    "snapshot-id",
    "type",
    "max-ref-age-ms",
    "max-snapshot-age-ms",
    "min-snapshots-to-keep",
)


def empty_table() -> dict[str, Any]:
    """Return the document of a table before the updates that create it, which complete it."""
    return {
        "format-version": 1,
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": -1,
        "schemas": [],
        "default-spec-id": -1,
        "partition-specs": [],
        "last-partition-id": _FIRST_PARTITION_ID - 1,
        "default-sort-order-id": -1,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": None,
        "refs": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "statistics": [],
        "partition-statistics": [],
    }


def apply_updates(body: dict[str, Any], updates: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Apply updates to a document in place, and return it.

    Raises:
        InvalidInput: An update does not fit the table.
    """
    work = _Changing(body)
    for update in updates:
        action = str(update.get("action"))
        apply = work.actions.get(action)
        if apply is None:
            raise InvalidInput(f"The lake knows no update {action!r}.")  # noqa: EM102
        try:
            apply(update)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            what = f"The update {action} is not what Iceberg's REST protocol says: {error!r}."
            raise InvalidInput(what) from error
    return work.finished()


class _Changing:
    """A document while updates are applied."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body
        self._last: dict[str, int] = {}
        self._added: dict[int, int] = {}
        self._passed: set[int] = set()
        self._updated_ms: int | None = None
        for name in ("snapshots", "snapshot-log", "statistics", "partition-statistics"):
            body[name] = list(body.get(name) or [])
        body["refs"] = dict(body.get("refs") or {})
        body["schemas"] = list(schemas_of(body).values()) if _has_schema(body) else []
        body.setdefault("current-schema-id", 0)
        body["partition-specs"] = list(specs_of(body).values())
        body.setdefault("default-spec-id", 0)
        body.setdefault("last-partition-id", _FIRST_PARTITION_ID - 1)
        body["sort-orders"] = list(body.get("sort-orders") or [])
        body["properties"] = dict(body.get("properties") or {})
        self.actions: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "assign-uuid": self._assign_uuid,
            "upgrade-format-version": self._upgrade,
            "add-schema": self._add_schema,
            "set-current-schema": self._set_schema,
            "add-spec": self._add_spec,
            "set-default-spec": self._set_spec,
            "add-sort-order": self._add_order,
            "set-default-sort-order": self._set_order,
            "add-snapshot": self._add_snapshot,
            "set-snapshot-ref": self._set_ref,
            "remove-snapshots": self._remove_snapshots,
            "remove-snapshot-ref": self._remove_ref,
            "set-location": self._set_location,
            "set-properties": self._set_properties,
            "remove-properties": self._remove_properties,
            "set-statistics": self._set_statistics,
            "remove-statistics": self._remove_statistics,
            "set-partition-statistics": self._set_partition_statistics,
            "remove-partition-statistics": self._remove_partition_statistics,
            "remove-partition-specs": self._remove_specs,
            "remove-schemas": self._remove_schemas,
        }

    def finished(self) -> dict[str, Any]:
        """Return the document after all updates."""
        body, current = self._body, self._body.get("current-snapshot-id")
        for snapshot in body["snapshots"]:
            if snapshot["snapshot-id"] in self._added and snapshot.get("schema-id") is not None:
                _of(body["schemas"], "schema-id", snapshot["schema-id"])
        # Snapshots that were current only within this commit were never visible to others.
        gone = self._passed - {current}
        body["snapshot-log"] = [e for e in body["snapshot-log"] if e["snapshot-id"] not in gone]
        before = int(body.get("last-updated-ms") or 0)
        body["last-updated-ms"] = max(before, self._updated_ms or now_ms())
        if body.get("location") is not None:
            body["location"] = str(body["location"]).rstrip("/")
        if body["format-version"] == 1:
            # Version 1 has the current schema and spec twice.
            body["schema"] = _of(body["schemas"], "schema-id", body["current-schema-id"])
            spec = _of(body["partition-specs"], "spec-id", body["default-spec-id"])
            body["partition-spec"] = spec["fields"]
        return body

    def _assign_uuid(self, update: Mapping[str, Any]) -> None:
        known = self._body.get("table-uuid")
        if known is not None and str(known).lower() != str(update["uuid"]).lower():
            raise InvalidInput("The uuid of a table cannot be changed.")  # noqa: EM101
        self._body["table-uuid"] = str(update["uuid"])

    def _upgrade(self, update: Mapping[str, Any]) -> None:
        new, known = int(update["format-version"]), int(self._body["format-version"])
        if new not in _VERSIONS or new < known:
            what = f"The table has the format version {known} and cannot get {new}."
            raise InvalidInput(what)
        self._body["format-version"] = new
        if new >= _ROW_IDS_SINCE and known < _ROW_IDS_SINCE:
            self._body["next-row-id"] = 0

    def _add_schema(self, update: Mapping[str, Any]) -> None:
        schema, known = dict(update["schema"]), self._body["schemas"]
        check_added(schema)
        same = [s["schema-id"] for s in known if _columns(s) == _columns(schema)]
        number = same[0] if same else _next(s["schema-id"] for s in known)
        if not same:
            known.append({**schema, "schema-id": number})
        # Clients name a last id, too: in Java the highest one of the new schema, which is lower if
        # that column is dropped.
        highest = max((part.id for part in parts_of(schema)), default=0)
        self._body["last-column-id"] = max(self._body["last-column-id"], highest)
        self._last["schema"] = number

    def _set_schema(self, update: Mapping[str, Any]) -> None:
        number = self._known("schema", update["schema-id"], "schemas", "schema-id")
        self._body["current-schema-id"] = number

    def _add_spec(self, update: Mapping[str, Any]) -> None:
        spec, known = dict(update["spec"]), self._body["partition-specs"]
        fields = [dict(field) for field in spec["fields"]]
        last = int(self._body["last-partition-id"])
        for field in fields:
            if field.get("field-id") is None:
                last += 1
                field["field-id"] = last
        same = [s["spec-id"] for s in known if s["fields"] == fields]
        number = same[0] if same else _next(s["spec-id"] for s in known)
        if not same:
            known.append({"spec-id": number, "fields": fields})
        ids = (int(field["field-id"]) for field in fields)
        self._body["last-partition-id"] = max(last, *ids) if fields else last
        self._last["spec"] = number

    def _set_spec(self, update: Mapping[str, Any]) -> None:
        number = self._known("spec", update["spec-id"], "partition-specs", "spec-id")
        self._body["default-spec-id"] = number

    def _add_order(self, update: Mapping[str, Any]) -> None:
        fields, known = list(update["sort-order"]["fields"]), self._body["sort-orders"]
        same = [o["order-id"] for o in known if o["fields"] == fields]
        # The order 0 is the one without fields.
        number = same[0] if same else _next((o["order-id"] for o in known), 1) if fields else 0
        if not same:
            known.append({"order-id": number, "fields": fields})
        self._last["order"] = number

    def _set_order(self, update: Mapping[str, Any]) -> None:
        number = self._known("order", update["sort-order-id"], "sort-orders", "order-id")
        self._body["default-sort-order-id"] = number

    def _add_snapshot(self, update: Mapping[str, Any]) -> None:
        body, snapshot = self._body, dict(update["snapshot"])
        number = int(snapshot["snapshot-id"])
        if any(s["snapshot-id"] == number for s in body["snapshots"]):
            raise InvalidInput(f"The table has a snapshot {number} already.")  # noqa: EM102
        if body["format-version"] >= _SEQUENCES_SINCE:
            sequence, last = int(snapshot["sequence-number"]), int(body["last-sequence-number"])
            if sequence <= last and snapshot.get("parent-snapshot-id") is not None:
                what = f"Snapshot {number} has the sequence number {sequence}; the last is {last}."
                raise InvalidInput(what)
            body["last-sequence-number"] = max(sequence, last)
        if body["format-version"] >= _ROW_IDS_SINCE:
            self._take_row_ids(snapshot)
        body["snapshots"].append({"snapshot-id": number, **snapshot})
        self._added[number] = self._updated_ms = int(snapshot["timestamp-ms"])

    def _take_row_ids(self, snapshot: Mapping[str, Any]) -> None:
        first, rows = snapshot.get("first-row-id"), snapshot.get("added-rows")
        following = int(self._body.get("next-row-id") or 0)
        if first is None or rows is None or int(rows) < 0:
            raise InvalidInput("A snapshot of format version 3 names its row ids.")  # noqa: EM101
        if int(first) < following:
            what = f"The snapshot's first row id {first} is taken; the next one is {following}."
            raise InvalidInput(what)
        self._body["next-row-id"] = int(first) + int(rows)

    def _set_ref(self, update: Mapping[str, Any]) -> None:
        body, name, number = self._body, str(update["ref-name"]), int(update["snapshot-id"])
        snapshot = _of(body["snapshots"], "snapshot-id", number)
        ref = {k: update[k] for k in _REF_SETTINGS if update.get(k) is not None}
        if name == _MAIN:
            if ref.get("type") != "branch":
                raise InvalidInput("The ref main is a branch.")  # noqa: EM101
            if body.get("current-snapshot-id") in self._added:
                self._passed.add(body["current-snapshot-id"])
            if number != body.get("current-snapshot-id"):
                at_ms = self._added.get(number, now_ms())
                body["snapshot-log"].append({"timestamp-ms": at_ms, "snapshot-id": number})
            body["current-snapshot-id"] = number
            if "schema-id" in snapshot and body["current-schema-id"] == -1:
                body["current-schema-id"] = snapshot["schema-id"]
        body["refs"][name] = ref

    def _remove_snapshots(self, update: Mapping[str, Any]) -> None:
        body, gone = self._body, {int(number) for number in update["snapshot-ids"]}
        if body.get("current-snapshot-id") in gone:
            raise InvalidInput("The current snapshot cannot be removed.")  # noqa: EM101
        body["snapshots"] = [s for s in body["snapshots"] if s["snapshot-id"] not in gone]
        body["refs"] = {n: r for n, r in body["refs"].items() if r["snapshot-id"] not in gone}
        for name in ("statistics", "partition-statistics"):
            body[name] = [s for s in body[name] if s["snapshot-id"] not in gone]
        log: list[Any] = []
        for entry in body["snapshot-log"]:
            # Entries before a removed one would show a history with a gap.
            log = [] if entry["snapshot-id"] in gone else [*log, entry]
        body["snapshot-log"] = log

    def _remove_ref(self, update: Mapping[str, Any]) -> None:
        name = str(update["ref-name"])
        self._body["refs"].pop(name, None)
        if name == _MAIN:
            self._body["current-snapshot-id"] = None

    def _set_location(self, update: Mapping[str, Any]) -> None:
        self._body["location"] = str(update["location"])

    def _set_properties(self, update: Mapping[str, Any]) -> None:
        self._body["properties"] |= {str(k): str(v) for k, v in dict(update["updates"]).items()}

    def _remove_properties(self, update: Mapping[str, Any]) -> None:
        for key in list(update["removals"]):
            self._body["properties"].pop(str(key), None)

    def _set_statistics(self, update: Mapping[str, Any]) -> None:
        self._replace("statistics", dict(update["statistics"]))

    def _remove_statistics(self, update: Mapping[str, Any]) -> None:
        self._remove_of("statistics", update)

    def _set_partition_statistics(self, update: Mapping[str, Any]) -> None:
        self._replace("partition-statistics", dict(update["partition-statistics"]))

    def _remove_partition_statistics(self, update: Mapping[str, Any]) -> None:
        self._remove_of("partition-statistics", update)

    def _remove_specs(self, update: Mapping[str, Any]) -> None:
        gone = {int(number) for number in update["spec-ids"]}
        if self._body["default-spec-id"] in gone:
            raise InvalidInput("The default partition spec cannot be removed.")  # noqa: EM101
        kept = [s for s in self._body["partition-specs"] if s["spec-id"] not in gone]
        self._body["partition-specs"] = kept

    def _remove_schemas(self, update: Mapping[str, Any]) -> None:
        gone = {int(number) for number in update["schema-ids"]}
        if self._body["current-schema-id"] in gone:
            raise InvalidInput("The current schema cannot be removed.")  # noqa: EM101
        self._body["schemas"] = [s for s in self._body["schemas"] if s["schema-id"] not in gone]

    def _replace(self, name: str, new: dict[str, Any]) -> None:
        others = [s for s in self._body[name] if s["snapshot-id"] != new["snapshot-id"]]
        self._body[name] = [*others, new]

    def _remove_of(self, name: str, update: Mapping[str, Any]) -> None:
        number = int(update["snapshot-id"])
        self._body[name] = [s for s in self._body[name] if s["snapshot-id"] != number]

    def _known(self, kind: str, number: Any, places: str, key: str) -> int:
        """Check that a schema, spec or order exists, and return its id; -1 is the last added."""
        if number == _LAST_ADDED:
            if kind not in self._last:
                raise InvalidInput(f"The commit has added no {kind}.")  # noqa: EM102
            return self._last[kind]
        _of(self._body[places], key, int(number))
        return int(number)


def _has_schema(body: Mapping[str, Any]) -> bool:
    return bool(body.get("schemas")) or "schema" in body


def _of(entries: Iterable[dict[str, Any]], key: str, number: int) -> dict[str, Any]:
    found = next((one for one in entries if one[key] == number), None)
    if found is None:
        raise InvalidInput(f"The table has no {key} {number}.")  # noqa: EM102
    return found


def _next(numbers: Iterable[int], first: int = 0) -> int:
    return max((int(number) + 1 for number in numbers), default=first)


def _columns(schema: Mapping[str, Any]) -> Any:
    return schema["fields"], schema.get("identifier-field-ids") or []
