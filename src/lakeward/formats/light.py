"""The part of a format that every use of a lake needs; it uses the store alone and loads little.

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
    """The methods of a format that need the store alone. `Format` is the whole contract."""

    name: ClassVar[str]
    """The name of the format, for users and in the log."""

    def recover(self, context: LakeContext) -> None:
        """Complete what a process that died after ratification left undone, except publication."""
        return

    def to_follow(self, session: Session) -> list[Head]:
        """Return the heads of tables to which others may have committed."""
        ...

    def may_have_moved(self, session: Session, head: Head) -> bool:
        """Return whether others may have committed versions that the log lacks, by the store."""
        ...

    def snapshot_id(
        self,
        context: LakeContext,
        head: Head,
        version: int,
    ) -> int | None:
        """Return the number that other engines use for a version; None if it is the version."""
        return None
