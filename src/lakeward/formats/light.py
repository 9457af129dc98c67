"""The part of a format that every use of a lake asks; it answers from the store and loads little.

Opening a lake, listing its tables and reading their history need no more of a format than this, so
the module of the format itself is loaded when something is read, written or published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from lakeward.context import LakeContext
    from lakeward.log.database import Session
    from lakeward.model.commit import Head


class LightFormat(Protocol):
    """What a format knows of its tables from the store. `Format` is the whole contract."""

    name: ClassVar[str]
    """As users and the log write it."""

    def recover(self, context: LakeContext) -> None:
        """Repair what a process that died after ratification left, beside owed publications."""
        return

    def to_follow(self, session: Session) -> list[Head]:
        """Return the heads of tables to which others may have committed."""
        ...

    def may_have_moved(self, session: Session, head: Head) -> bool:
        """Return whether others may have committed past the log, as far as the store knows."""
        ...

    def snapshot_id(
        self,
        context: LakeContext,
        head: Head,
        version: int,
    ) -> int | None:
        """Return the number by which other engines know a version, if it is not the version's."""
        return None
