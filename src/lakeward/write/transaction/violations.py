"""Records the violations that ended a transaction, after it was rolled back."""

from __future__ import annotations

import logging

from lakeward.context import LakeContext
from lakeward.errors import ConstraintViolation
from lakeward.log import violations
from lakeward.log.violations import Violation
from lakeward.model.constraints import OnViolation
from lakeward.model.records import to_json

_LOG = logging.getLogger(__name__)


def record_failure(
    context: LakeContext, transaction_id: str, error: BaseException | None
) -> list[Violation]:
    """Record the violations in an error, and return them; none for other errors.

    A failure to record them is only logged.
    """
    if not isinstance(error, ConstraintViolation):
        return []
    found = _violations(context, transaction_id, error)
    try:
        with context.database.write() as session:
            violations.insert(session, found)
    except Exception as failure:  # noqa: BLE001  the caller must see the first error
        _LOG.warning("A violation is not recorded: %s", failure)
    return found


def _violations(
    context: LakeContext, transaction_id: str, error: ConstraintViolation
) -> list[Violation]:
    facts = error.facts
    column = facts.get("column")
    first = facts.get("constraint") or (f"{column} is not null" if column else "")
    counts = facts.get("counts") or {first: facts.get("count", 1)}
    return [
        Violation(
            table=str(facts.get("table", "")),
            constraint=name,
            transaction_id=transaction_id,
            actor=context.actor,
            action=OnViolation.FAIL,
            reason=error.what,
            count=count,
            sample=to_json(facts.get("sample") or []) if name == first else [],
        )
        for name, count in counts.items()
    ]
