"""Compares the requirements of a commit of Iceberg's REST protocol with a table's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeward.errors import InvalidInput

_EQUAL: Final = {
    "assert-last-assigned-field-id": ("last-column-id", "last assigned field id"),
    "assert-current-schema-id": ("current-schema-id", "current schema"),
    "assert-last-assigned-partition-id": ("last-partition-id", "last assigned partition id"),
    "assert-default-spec-id": ("default-spec-id", "default partition spec"),
    "assert-default-sort-order-id": ("default-sort-order-id", "default sort order"),
}
"""For each type of requirement, the key of the metadata that must be equal, and its name."""


def broken(requirement: Mapping[str, Any], body: Mapping[str, Any]) -> str | None:
    """Return why a requirement does not hold, in the words of Iceberg's catalogs; None if it does.

    Raises:
        InvalidInput: The requirement is of no known kind.
    """
    kind = str(requirement.get("type"))
    match kind:
        case "assert-create":
            return "table already exists"
        case "assert-table-uuid":
            known, wanted = str(body.get("table-uuid")), str(requirement.get("uuid"))
            is_same = known.lower() == wanted.lower()
            return None if is_same else f"UUID does not match: expected {known} != {wanted}"
        case "assert-ref-snapshot-id":
            return _broken_ref(requirement, body)
        case _ if kind in _EQUAL:
            key, name = _EQUAL[kind]
            wanted_id, known_id = _expected(requirement, kind), body.get(key)
            if wanted_id == known_id:
                return None
            return f"{name} changed: expected id {wanted_id} != {known_id}"
    raise InvalidInput(f"The lake knows no requirement {kind!r}.")  # noqa: EM102


def _expected(requirement: Mapping[str, Any], kind: str) -> Any:
    """Return the value that a requirement expects, such as that of `current-schema-id`."""
    return requirement.get(kind.removeprefix("assert-"))


def _broken_ref(requirement: Mapping[str, Any], body: Mapping[str, Any]) -> str | None:
    name, wanted = str(requirement.get("ref")), requirement.get("snapshot-id")
    found = (body.get("refs") or {}).get(name)
    known = None if found is None else found.get("snapshot-id")
    if name == "main" and found is None and body.get("current-snapshot-id") not in (None, -1):
        # Version 1 has no refs.
        known = body["current-snapshot-id"]
    if known == wanted:
        return None
    if wanted is None:
        return f"branch or tag {name} was created concurrently"
    if known is None:
        return f"branch or tag {name} is missing, expected {wanted}"
    return f"branch or tag {name} has changed: expected id {wanted} != {known}"
