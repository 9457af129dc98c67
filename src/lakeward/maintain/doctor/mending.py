"""Repairs what is safe to repair; deletes nothing, and overwrites no file of others.

It publishes commits of the log, closes transactions and pins whose lease ran out, and enters
Iceberg tables again that another program removed from the catalog or renamed there.
"""

from __future__ import annotations

import logging
from collections import defaultdict

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.formats.iceberg import metadata
from lakeward.formats.iceberg.document import parse
from lakeward.log import catalog, heads, locks, pins, transactions
from lakeward.log.database import Session
from lakeward.maintain.doctor.findings import Mended, Report
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from lakeward.write.commit.publications import publish_again, recover

_LOG = logging.getLogger(__name__)
_PUBLISHABLE = frozenset({"published-missing", "published-torn"})


def mend(context: LakeContext, report: Report) -> Mended:
    """Publish missing or torn commits, and expire transactions and pins whose lease ran out."""
    with context.database.write() as session:
        now = context.database.clock_ms(session)
        expired = transactions.expire(session, now)
        pins.expire(session, now)
        locks.sweep(session)
    recover(context)
    lost: dict[str, list[int]] = defaultdict(list)
    for finding in report.findings:
        if finding.code in _PUBLISHABLE and finding.table and finding.version is not None:
            lost[finding.table].append(finding.version)
    published: dict[str, int] = {}
    for name, versions in lost.items():
        with context.database.read() as session:
            head = heads.get(session, TableName.parse(name))
        try:
            publish_again(context, head, sorted(versions))
        except LakewardError as error:
            _LOG.warning("Table %s could not be mended: %s", name, error)
        else:
            published[name] = len(versions)
    missing = [f.table for f in report.findings if f.code == "catalog-missing" and f.table]
    return Mended(published, expired, tuple(name for name in missing if _enter(context, name)))


def _enter(context: LakeContext, name: str) -> bool:
    """Enter a table into the catalog again, under its name; False where that cannot be done."""
    try:
        with context.database.write() as session:
            found = heads.get(session, TableName.parse(name))
            head = heads.lock(session, found.table_id, found.name)
            if catalog.lock(session, head.name) is None:
                _enter_again(context, session, head)
    except LakewardError as error:
        _LOG.warning("Table %s could not be entered again: %s", name, error)
        return False
    return True


def _enter_again(context: LakeContext, session: Session, head: Head) -> None:
    known = {catalog.identifier(h.name) for h in heads.of_format(session, head.format)}
    for entered, pointer in catalog.pointers(session).items():
        # Its pointer is kept: it may have new commits since it was renamed.
        if entered not in known and pointer and metadata.is_of(context, head, pointer):
            catalog.rename(session, entered, head.name)
            return
    # A document that cannot be read is not entered.
    place = str(head.pointer)
    parse(place, metadata.reader(context)(place))
    catalog.insert(session, head.name, place)
