"""Mending what is safe to mend: what the log says is published, and what the dead left is closed.

Nothing is deleted, and nothing of anybody else is overwritten.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass

from lakeward.errors import LakewardError
from lakeward.log import heads, locks, pins, transactions
from lakeward.maintain.doctor.report import Report
from lakeward.model.names import TableName
from lakeward.read.parts import Parts
from lakeward.write.publish import publish_again, recover

_LOG = logging.getLogger(__name__)
_PUBLISHABLE = frozenset({"published-missing", "published-torn"})


@dataclass(frozen=True, slots=True)
class Mended:
    """What was done.

    Attributes:
        published: Versions written again, by table, besides those that were still owed.
        expired: Transactions of dead processes that were closed.
    """

    published: dict[str, int]
    expired: int


def mend(parts: Parts, report: Report) -> Mended:
    """Publish what is owed, lost or torn, and expire the transactions and pins of the dead."""
    with parts.database.write() as session:
        now = parts.database.clock_ms(session)
        expired = transactions.expire(session, now)
        pins.expire(session, now)
        locks.sweep(session)
    recover(parts)
    lost: dict[str, list[int]] = defaultdict(list)
    for finding in report.findings:
        if finding.code in _PUBLISHABLE and finding.table and finding.version is not None:
            lost[finding.table].append(finding.version)
    published: dict[str, int] = {}
    for name, versions in lost.items():
        with parts.database.read() as session:
            head = heads.get(session, TableName.parse(name))
        try:
            publish_again(parts, head, sorted(versions))
        except LakewardError as error:
            _LOG.warning("Table %s could not be mended: %s", name, error)
        else:
            published[name] = len(versions)
    return Mended(published, expired)
