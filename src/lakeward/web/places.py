"""The version of a table that a request reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Query

from lakeward.errors import InvalidInput

if TYPE_CHECKING:
    from lakeward.lake.records import TableSnapshot
    from lakeward.lake.table import Table


@dataclass(frozen=True, slots=True)
class At:
    """A version, a moment, a tag or a transaction; at most one of them. Now if none is given."""

    version: Annotated[int | None, Query(ge=0)] = None
    timestamp: Annotated[str | None, Query(max_length=64, description="ISO 8601.")] = None
    tag: Annotated[str | None, Query(max_length=128)] = None
    transaction: Annotated[str | None, Query(max_length=128)] = None

    def of(self, table: Table) -> TableSnapshot:
        """The table at that version."""
        return table.at(
            version=self.version,
            timestamp=self.timestamp,
            tag=self.tag,
            transaction=self.transaction,
        )


SnapshotAt = Annotated[At, Depends(At)]
"""The type of the parameter by which an endpoint gets the moment."""


def version_of(at: At, place: dict[str, Any]) -> int:
    """The version of a cursor; raise `InvalidInput` if a later page asks for another one."""
    version: int = place["version"]
    if at.version not in (None, version) or at.timestamp or at.tag or at.transaction:
        what = "The cursor is of another version than the one asked for."
        raise InvalidInput(what, hint="Leave the version out, or the cursor.", parameter="cursor")
    return version
