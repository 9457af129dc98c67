"""Records reads of tables in their audit trails, if their policies require it.

A read is recorded before any row is returned; if that is not possible, the read is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import ReadOnlyLake
from lakeward.formats.policy import audits_reads
from lakeward.log import audit, heads
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.definition import Definition

READ: Final = "READ"
"""The action of an audited read in the audit trail."""


def audit_read(
    context: LakeContext,
    head: Head,
    version: int,
    how: str,
    *,
    columns: Sequence[str] | None = None,
    definition: Definition | None = None,
) -> None:
    """Record a read of a table in its audit trail, if the table's current policy requires it.

    Args:
        context: The lake.
        head: The table.
        version: The version that is read, which may be older than the policy.
        how: How the table is read: `rows`, `sql`, `changes`, …
        columns: The columns that are read; None for all.
        definition: The table's newest definition with its policies, if the caller has it.

    Raises:
        ReadOnlyLake: The read must be recorded, and nothing can be written.
    """
    if definition is None:
        with context.database.read() as session:
            definition = context.definition(session, head)
    if not audits_reads(head, definition):
        return
    if context.database.read_only is not None:
        what = f"Reads of {head.name} are audited, and a read-only lake cannot record them."
        hint = "Open the lake as a user who may write its store."
        raise ReadOnlyLake(what, hint=hint, reason=context.database.read_only, table=str(head.name))
    detail = {"how": how} if columns is None else {"how": how, "columns": list(columns)}
    with context.database.write() as session:
        locked, _ = heads.lock_ever(session, head.table_id)
        noted = audit.record(
            session,
            locked,
            at_ms=now_ms(),
            actor=context.actor,
            action=READ,
            version=version,
            detail=detail,
        )
        heads.advance(session, noted)
