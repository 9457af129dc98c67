"""The audit trail of a lake: who did what and when, and whether the records were changed since."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakeward.context import LakeContext
from lakeward.log import audit
from lakeward.log.codec import loads
from lakeward.model import arguments
from lakeward.model.clock import to_datetime, to_ms
from lakeward.model.names import TableName
from lakeward.model.progress import Progress, reported

if TYPE_CHECKING:
    from lakeward.maintain.trail import TrailReport

_FOREVER = 2**62


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One action on a table.

    Attributes:
        number: Position in the table's trail, from 1 on.
        detail: Details of the action, apart from the version.
        hash: Covers the entry and the hash of the previous entry.
    """

    table: str
    number: int
    timestamp: datetime
    actor: str
    action: str
    transaction_id: str | None
    version: int | None
    detail: Any
    hash: str


class Trail:
    """The part of a lake's interface that reads the audit trail."""

    _context: LakeContext

    def audit(
        self,
        *,
        table: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = 100,
    ) -> list[AuditRecord]:
        """Return who did what to the tables, including dropped ones, newest first.

        Args:
            table: Only actions on this table.
            actor: Only actions of this user.
            action: Only this action: `WRITE`, `DELETE`, `CREATE TABLE`, `DROP TABLE`, …
            since: Only from this time on.
            until: Only up to this time.
            limit: How many to return at most; None for all.
        """
        own = arguments.optional_text(action, "action")
        with self._context.database.read() as session:
            found = audit.found(
                session,
                table=None if table is None else TableName.parse(table),
                actor=arguments.optional_text(actor, "actor"),
                action=None if own is None else own.upper(),
                since_ms=0 if since is None else to_ms(since),
                until_ms=_FOREVER if until is None else to_ms(until),
                limit=_FOREVER if limit is None else arguments.whole(limit, "limit"),
            )
        return [_record(name, entry) for name, entry in found]

    def verify_audit(self, *, progress: Progress | None = None) -> TrailReport:
        """Check that no entry of the audit trail was changed, removed, inserted or reordered.

        Trails are hash chains, and published commits contain the latest hash of the trail at the
        time; both are compared. So a change is found even if all hashes in the store were
        recomputed, unless the tables' files were changed too.

        Args:
            progress: Called with the number of published commits read, and of all of them.
        """
        from lakeward.maintain.trail import verify

        with reported(progress):
            return verify(self._context)


def _record(table: TableName, entry: audit.AuditEntry) -> AuditRecord:
    return AuditRecord(
        table=str(table),
        number=entry.seq,
        timestamp=to_datetime(entry.at_ms),
        actor=entry.actor,
        action=entry.action,
        transaction_id=entry.transaction_id,
        version=entry.version,
        detail=loads(entry.detail),
        hash=entry.hash,
    )
