"""What the store knows of Iceberg tables, and the hints beside their metadata."""

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
    """Apache Iceberg tables, as the store knows them."""

    name: ClassVar[str] = "iceberg"

    def recover(self, context: LakeContext) -> None:
        """Renew the hints of tables whose committer died before it wrote them."""
        renew_hints(context)

    def to_follow(self, session: Session) -> list[Head]:
        """Return the tables whose pointer another writer moved."""
        return heads.moved(session)

    def may_have_moved(self, session: Session, head: Head) -> bool:
        """Compare the catalog's pointer with the log's."""
        return catalog.pointer(session, head.name) != head.pointer

    def snapshot_id(self, context: LakeContext, head: Head, version: int) -> int | None:
        """Return the snapshot of a version, or of the newest one before it that has a snapshot."""
        with context.database.read() as session:
            found = commits.newest_with(session, head.table_id, version, SNAPSHOT_ID)
        return None if found is None else int(found)
