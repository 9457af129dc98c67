"""The part of the Delta format that needs only the store, and loads little."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lakeward.formats.light import LightFormat
from lakeward.log import heads

if TYPE_CHECKING:
    from lakeward.log.database import Session
    from lakeward.model.commit import Head


class LightDelta(LightFormat):
    """Methods for Delta tables that need the store alone."""

    name: ClassVar[str] = "delta"

    def to_follow(self, session: Session) -> list[Head]:
        """Return the open Delta tables, which other engines may write to, as rows of the store."""
        return heads.unguarded(session)

    def may_have_moved(self, session: Session, head: Head) -> bool:
        """Return whether other writers may have committed: whether the table is not guarded."""
        return not head.guarded
