"""The part of the Iceberg format that needs only the store and the version hints."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lakeward.formats.iceberg.hints import renew_hints
from lakeward.formats.iceberg.summary import SNAPSHOT_ID
from lakeward.formats.light import LightFormat
from lakeward.log import catalog, commits, heads

if TYPE_CHECKING:
    from lakeward.context import LakeContext
    from lakeward.log.database import Session
    from lakeward.model.commit import Head


class LightIceberg(LightFormat):
    """Methods for Iceberg tables that need the store alone."""

    name: ClassVar[str] = "iceberg"

    def recover(self, context: LakeContext) -> None:
        """Write the version hints of tables whose committing process died before it wrote them."""
        renew_hints(context)

    def to_follow(self, session: Session) -> list[Head]:
        """Return the heads of tables whose pointer another writer changed."""
        return heads.moved(session)

    def may_have_moved(self, session: Session, head: Head) -> bool:
        """Return whether the catalog's pointer differs from the log's."""
        return catalog.pointer(session, head.name) != head.pointer

    def snapshot_id(self, context: LakeContext, head: Head, version: int) -> int | None:
        """Return the snapshot id of a version, or of the newest version before it that has one."""
        with context.database.read() as session:
            found = commits.newest_with(session, head.table_id, version, SNAPSHOT_ID)
        return None if found is None else int(found)
