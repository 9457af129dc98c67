"""Checks that files which a transaction adds by their paths still exist and are not retired.

Vacuum retires the versions of files in the log before it deletes the files, while it holds the lock
of the head. It keeps files that `lakeward.log.unrecorded` has for an open transaction.
"""

from __future__ import annotations

from lakeward.context import LakeContext
from lakeward.log import retired, unrecorded
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.file import is_full
from lakeward.write.commit.conflict import conflict
from lakeward.write.commit.kinds import Kind
from lakeward.write.plan.change import Change


def check_and_release_claims(
    context: LakeContext, session: Session, transaction_id: str, change: Change, current: Head
) -> None:
    """Raise `Conflict` if vacuum deleted, or is about to delete, a file that the change claims.

    Otherwise release the claims: the version that this session records contains the files.
    """
    for path in change.claims:
        place = path if is_full(path) else f"{current.location}/{path}"
        is_retired = retired.has_path(session, current.table_id, path)
        if is_retired or not context.storage.exists(place):
            why = f"vacuumed file {path}, which this transaction adds"
            raise conflict(session, change, current, Kind.VACUUMED, why, file=path)
    unrecorded.release(session, transaction_id)
