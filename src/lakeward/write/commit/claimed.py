"""Checks that files which a transaction adds by their paths were not vacuumed meanwhile.

Nothing names such files before the commit, so vacuum may delete them. It retires the versions of
files that the log knows before it deletes them, and holds the lock of the head while it does so.
"""

from __future__ import annotations

from lakeward.context import LakeContext
from lakeward.log import retired
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.file import is_full
from lakeward.write.commit.conflict import conflict
from lakeward.write.commit.kinds import Kind
from lakeward.write.plan.change import Change


def check_claims(context: LakeContext, session: Session, change: Change, current: Head) -> None:
    """Raise `Conflict` if vacuum deleted, or is about to delete, a file that the change claims."""
    for path in change.claims:
        place = path if is_full(path) else f"{current.location}/{path}"
        is_retired = retired.has_path(session, current.table_id, path)
        if is_retired or not context.storage.exists(place):
            why = f"vacuumed file {path}, which this transaction adds"
            raise conflict(session, change, current, Kind.VACUUMED, why, file=path)
