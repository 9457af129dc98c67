"""The version of a table that a request reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Query

from lakeward.errors import InvalidInput, TableNotFound
from lakeward.model.arguments import LARGEST

if TYPE_CHECKING:
    from lakeward.lake.records import TableSnapshot
    from lakeward.lake.table import Table


@dataclass(frozen=True, slots=True)
class At:
    """A version, a time, a tag or a transaction; at most one is given, none for the newest."""

    version: Annotated[int | None, Query(ge=-LARGEST, le=LARGEST)] = None
    timestamp: Annotated[str | None, Query(max_length=64, description="ISO 8601.")] = None
    tag: Annotated[str | None, Query(max_length=128)] = None
    transaction: Annotated[str | None, Query(max_length=128)] = None
    table_id: Annotated[
        int | None, Query(ge=0, le=LARGEST, description="Refuse another table of this name.")
    ] = None

    def of(self, table: Table, place: dict[str, Any] | None = None) -> TableSnapshot:
        """Return the table at that version; at the version of a cursor's place, if one is given.

        Raises:
            InvalidInput: The cursor is of another version than the one asked for.
            TableNotFound: The table of this name is another one than that of the id.
        """
        if self.table_id is not None and table.at().log_head.table_id != self.table_id:
            what = f"The table {table.name} that is asked for was dropped; another has its name."
            raise TableNotFound(what, table=table.name)
        if place is not None:
            return table.at(version=_version(self, place))
        return table.at(
            version=self.version,
            timestamp=self.timestamp,
            tag=self.tag,
            transaction=self.transaction,
        )


SnapshotAt = Annotated[At, Depends(At)]
"""The type of the parameter by which an endpoint gets the version to read."""


def _version(at: At, place: dict[str, Any]) -> int:
    """Return the version of a cursor; raise `InvalidInput` if the request asks for another one."""
    version: int = place["version"]
    if at.version not in (None, version) or at.timestamp or at.tag or at.transaction:
        what = "The cursor is of another version than the one asked for."
        raise InvalidInput(what, hint="Leave the version out, or the cursor.", parameter="cursor")
    return version
