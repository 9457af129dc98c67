"""What the store knows of Delta tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lakeward.formats.light import LightFormat
from lakeward.log import heads

if TYPE_CHECKING:
    from lakeward.log.database import Session
    from lakeward.model.commit import Head


class LightDelta(LightFormat):
    """Delta Lake tables, as the store knows them."""

    name: ClassVar[str] = "delta"

    def to_follow(self, session: Session) -> list[Head]:
        """Return the tables that are not guarded."""
        return heads.unguarded(session)

    def may_have_moved(self, session: Session, head: Head) -> bool:
        """Return whether the table is not guarded."""
        return not head.guarded
