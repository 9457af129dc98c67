"""Checks that transactions are complete, and lists leases, over all tables of the store.

Each check yields a finding for every violation or lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from lakeward.context import LakeContext
from lakeward.log import integrity, locks, transactions
from lakeward.log.codec import loads
from lakeward.maintain.doctor.findings import RESTORE, Finding, Severity
from lakeward.model.clock import to_datetime
from lakeward.model.locks import table_locks

_FIX = "Run `lakeward doctor --fix`; the next to open the lake does the same."


def whole_transactions(context: LakeContext) -> Iterator[Finding]:
    """Check that each transaction is in the log with all its tables, and registered as ratified."""
    with context.database.read() as session:
        for transaction_id, group in groupby(integrity.members(session), key=itemgetter(0)):
            yield from _members(transaction_id, list(group))
        for transaction_id in integrity.ratified_without_versions(session):
            what = f"Transaction {transaction_id} is ratified, but no table has a version of it."
            yield Finding(Severity.ERROR, "transaction-lost", what, RESTORE)


def leases(context: LakeContext) -> Iterator[Finding]:
    """Yield a finding for each open transaction, lock and pin; warn if its lease has expired."""
    with context.database.read() as session:
        now = context.database.clock_ms(session)
        still_open = transactions.still_open(session)
        pins = integrity.pins(session)
        held = table_locks(locks.claims(session), now)
    for found in still_open:
        since = to_datetime(found.opened_ms).isoformat(timespec="seconds")
        who = f"Transaction {found.transaction_id} of {found.actor} ({found.process})"
        if found.lease_until_ms < now:
            what = f"{who} is open since {since} and its lease ran out: its process is gone."
            yield Finding(Severity.WARNING, "transaction-expired", what, _FIX)
        else:
            what = f"{who} is open since {since}."
            yield Finding(Severity.INFO, "transaction-open", what)
    for lock in held:
        what = (
            f"Table {lock.table} is locked ({lock.mode.value}) by transaction"
            f" {lock.transaction_id} of {lock.actor} ({lock.process})."
        )
        yield Finding(Severity.INFO, "lock-held", what, table=lock.table)
    for pin_id, actor, tables, until in pins:
        who = f"Pin {pin_id} of {actor}, on {tables} table{'' if tables == 1 else 's'},"
        if until < now:
            yield Finding(Severity.WARNING, "pin-expired", f"{who} ran out.", _FIX)
        else:
            yield Finding(Severity.INFO, "pin-held", f"{who} is held by a reader.")


def _members(transaction_id: str, rows: list[Any]) -> Iterator[Finding]:
    infos = [loads(row[3]) for row in rows]
    if any(info.get("adopted") for info in infos):
        # Another lake's, or from before the store was lost: its other tables need not be here.
        return
    version = rows[0][2]
    expected, found = max(info["members"] for info in infos), len({row[1] for row in rows})
    if expected != found or len(rows) != found:
        what = (
            f"Transaction {transaction_id} changed {expected} tables;"
            f" the log has {len(rows)} of them."
        )
        yield Finding(Severity.ERROR, "transaction-torn", what, RESTORE, version=version)
    state = rows[0][4]
    if state != "ratified":
        known = "not registered" if state is None else f"registered as {state}"
        what = f"Transaction {transaction_id} has versions in the log and is {known}."
        yield Finding(Severity.ERROR, "transaction-state", what, RESTORE, version=version)
