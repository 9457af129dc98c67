"""Drops tables in a session that has locked their heads; the files stay."""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.context import LakeContext
from lakeward.formats.registry import publishers
from lakeward.log import audit, heads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.write.keys.declare import check_not_referred


def drop_tables(
    context: LakeContext,
    session: Session,
    dropped: Sequence[Head],
    at_ms: int,
    position: int,
    by: str | None,
) -> None:
    """Mark tables as dropped and remove them from catalogs; `by` is the transaction's id.

    Cuts at `position`, or at a later one, do not include the tables.

    Raises `InvalidInput` if a foreign key of a remaining table refers to one of them.
    """
    for head in dropped:
        detail = {} if by is None else {"transaction": by}
        noted = audit.record(
            session, head, at_ms=at_ms, actor=context.actor, action="DROP TABLE", detail=detail
        )
        heads.advance(session, noted)
        heads.drop(session, head.table_id, at_ms, position)
        for publisher in publishers(head):
            publisher.leave(context, session, head)
    for head in dropped:
        check_not_referred(session, head.name, "dropped")
