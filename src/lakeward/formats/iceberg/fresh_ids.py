"""Field ids of a new table, which its catalog assigns: 1, 2, 3, …, each level before the next.

The request of a client refers to columns by its own ids, so ids in partition specs, sort orders and
identifier fields are replaced together with those in the schema. All of it is JSON; entries that
the lake does not know are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeward.errors import InvalidInput

_FIRST_PARTITION_ID: Final = 1000
_SOURCES: Final = ("source-id", "source-ids")


class FreshIds:
    """Assigns new ids to the fields of a schema.

    Args:
        schema: The schema of a client.

    Attributes:
        schema: The schema with new ids.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._new: dict[int, int] = {}
        self.schema: dict[str, Any] = {
            **schema,
            "schema-id": 0,
            "fields": self._fields(schema["fields"]),
        }
        identifiers = schema.get("identifier-field-ids") or []
        if identifiers:
            self.schema["identifier-field-ids"] = [self._of(i) for i in identifiers]

    def spec(self, spec: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a partition spec with the new ids of its columns, and new partition field ids."""
        fields = [
            {**self._sources(field), "field-id": _FIRST_PARTITION_ID + number}
            for number, field in enumerate((spec or {}).get("fields") or [])
        ]
        return {"spec-id": 0, "fields": fields}

    def order(self, order: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a sort order with the new ids of its columns."""
        fields = [self._sources(field) for field in (order or {}).get("fields") or []]
        return {"order-id": 1 if fields else 0, "fields": fields}

    def _fields(self, fields: Any) -> list[dict[str, Any]]:
        numbered = [{**field, "id": self._give(field["id"])} for field in fields]
        return [{**field, "type": self._type(field["type"])} for field in numbered]

    def _type(self, kind: Any) -> Any:
        if not isinstance(kind, Mapping):
            return kind
        made = dict(kind)
        inner = [name for name in ("element", "key", "value") if f"{name}-id" in kind]
        for name in inner:
            made[f"{name}-id"] = self._give(kind[f"{name}-id"])
        for name in inner:
            made[name] = self._type(kind[name])
        if "fields" in kind:
            made["fields"] = self._fields(kind["fields"])
        return made

    def _give(self, old: Any) -> int:
        if old in self._new:
            raise InvalidInput(f"Two columns have the field id {old}.")  # noqa: EM102
        self._new[old] = len(self._new) + 1
        return self._new[old]

    def _of(self, old: Any) -> int:
        if old not in self._new:
            raise InvalidInput(f"The table has no column of the field id {old}.")  # noqa: EM102
        return self._new[old]

    def _sources(self, field: Mapping[str, Any]) -> dict[str, Any]:
        made = dict(field)
        for key in _SOURCES:
            if isinstance(field.get(key), list):
                made[key] = [self._of(old) for old in field[key]]
            elif field.get(key) is not None:
                made[key] = self._of(field[key])
        return made
