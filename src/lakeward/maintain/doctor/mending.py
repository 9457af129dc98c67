"""Repairs that are safe; they delete nothing, and overwrite no file of others.

They publish commits of the log, write checkpoints in place of lost commits, end transactions and
pins whose lease has expired, insert Iceberg tables into the catalog again that another program
removed or renamed there, and insert missing rows of the statistics index.
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
from lakeward.maintain.doctor.findings import CheckedTable, Mended, Report
from lakeward.maintain.doctor.statistics_checks import insert_missing
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from lakeward.write.commit.publications import checkpoint_newest, publish_again, recover

_LOG = logging.getLogger(__name__)
_PUBLISHABLE = frozenset({"published-missing", "published-torn"})


def mend(context: LakeContext, report: Report) -> Mended:
    """Publish missing or incomplete commits, expire leases, complete the catalog and the index."""
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
    entered = tuple(name for name in missing if _enter(context, name))
    lacking = dict.fromkeys(f.table for f in report.findings if f.code == "statistics" and f.table)
    counts = {name: _index(context, name) for name in lacking}
    indexed = {n: count for n, count in counts.items() if count}
    gaps = dict.fromkeys(f.table for f in report.findings if f.code == "published-lost" and f.table)
    written = tuple(name for name in gaps if _checkpoint(context, name))
    return Mended(published, expired, entered, indexed, written)


def _checkpoint(context: LakeContext, name: str) -> bool:
    """Write a checkpoint of a table's newest version; return False if that fails."""
    try:
        with context.database.read() as session:
            head = heads.get(session, TableName.parse(name))
        checkpoint_newest(context, head)
    except LakewardError as error:
        _LOG.warning("Table %s got no checkpoint: %s", name, error)
        return False
    return True


def _index(context: LakeContext, name: str) -> int:
    """Insert the rows that a table's statistics index lacks; return how many."""
    try:
        with context.database.write() as session:
            found = heads.get(session, TableName.parse(name))
            head = heads.lock(session, found.table_id, found.name)
            return insert_missing(session, CheckedTable(context, head.table_id, name, head.format))
    except LakewardError as error:
        _LOG.warning("The statistics index of %s could not be mended: %s", name, error)
        return 0


def _enter(context: LakeContext, name: str) -> bool:
    """Insert a table into the catalog again, under its name; return False if that fails."""
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
