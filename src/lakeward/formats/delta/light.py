"""The part of the Delta format that needs only the store, and loads little."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lakeward.formats.light import LightFormat
from lakeward.log import heads

if TYPE_CHECKING:
    from lakeward.log.database import Session
    from lakeward.model.commit import Head


class LightDelta(LightFormat):
    """Answers about Delta tables from the store alone."""

    name: ClassVar[str] = "delta"

    def to_follow(self, session: Session) -> list[Head]:
        """Return the tables that are not guarded."""
        return heads.unguarded(session)

    def may_have_moved(self, session: Session, head: Head) -> bool:
        """Return whether the table is not guarded."""
        return not head.guarded
