"""Numbers that Delta continues from commit to commit: row ids, and values of identity columns."""

from __future__ import annotations

from lakeward.formats.base import Ratified
from lakeward.formats.delta import identity, row_tracking
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.row_ids import RowIds
from lakeward.storage.base import Storage


class DeltaNumbers:
    """The part of the format contract that assigns row ids and identity values."""

    def numbered(self, session: Session, member: Ratified) -> Ratified:
        """Assign ids to the rows of new files, and set the high watermarks of identity columns."""
        if member.definition.identity:
            member = identity.marked(session, member)
        if not row_tracking.is_supported(member.definition):
            return member
        return row_tracking.numbered(session, member)

    def identity_marks(self, session: Session, head: Head) -> dict[int, int]:
        """Return the newest high watermarks in the log, by column id."""
        return identity.newest_marks(session, head.table_id)

    def row_ids(self, storage: Storage, head: Head, definition: Definition) -> RowIds | None:  # noqa: ARG002
        """Return the columns that store row ids; None without row tracking."""
        return row_tracking.row_ids(definition)

    def gives_first_ids(self, before: Definition, after: Definition) -> bool:
        """Return whether a change of the definition enables row tracking."""
        return row_tracking.is_enabled(after) and not row_tracking.is_enabled(before)
