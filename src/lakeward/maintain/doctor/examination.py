"""Runs every check on every table, and collects the findings.

The examination reads and never writes. Others may keep working: each check reads one consistent
snapshot, in an order that does not mistake their work for damage.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.log import commits, heads, totals
from lakeward.maintain.doctor import (
    file_checks,
    iceberg_checks,
    log_checks,
    published_checks,
    statistics_checks,
    transaction_checks,
    unused_files,
)
from lakeward.maintain.doctor.findings import (
    RESTORE,
    Check,
    CheckedTable,
    Finding,
    Report,
    Severity,
)
from lakeward.model.names import TableName
from lakeward.model.progress import Progress

LISTED: Final = 20
"""The number of findings of one kind that are listed for a table; the rest is counted."""

STORE_CHECKS: Final[tuple[Callable[[LakeContext], Iterator[Finding]], ...]] = (
    transaction_checks.whole_transactions,
    transaction_checks.leases,
    iceberg_checks.unknown_tables,
)
LOG_CHECKS: Final[tuple[Check, ...]] = (
    log_checks.versions,
    log_checks.times,
    log_checks.definitions,
    log_checks.file_ranges,
    log_checks.applications,
    log_checks.change_files,
    log_checks.audit_trail,
    statistics_checks.statistics,
    statistics_checks.derived_partitions,
)
FILE_CHECKS: Final[tuple[Check, ...]] = (file_checks.data_files, unused_files.reclaimable)
TABLE_CHECKS: Final[dict[str, tuple[Check, ...]]] = {
    "delta": (
        *LOG_CHECKS,
        published_checks.published_commits,
        published_checks.foreign_commits,
        published_checks.checkpoints,
        *FILE_CHECKS,
    ),
    "iceberg": (
        *LOG_CHECKS,
        iceberg_checks.catalog_entry,
        iceberg_checks.published_document,
        iceberg_checks.listed_files,
        *FILE_CHECKS,
        unused_files.metadata_litter,
    ),
}
_ORDER: Final = list(Severity)


def examine(
    context: LakeContext, *, tables: Sequence[str] | None = None, progress: Progress | None = None
) -> Report:
    """Check that the store is consistent, and that the published files agree with it.

    Open the lake with `repair=False` to see it as it is. `tables` are names; None means all tables.
    `progress` is called with two numbers: the versions and files checked so far, and their total.
    """
    started = time.monotonic()
    findings = list(_store_itself(context))
    chosen_tables = _chosen(context, tables, progress)
    for check in STORE_CHECKS:
        findings += _limited(_safely(check.__name__, None, lambda c=check: c(context)))  # type: ignore[misc]
    for table in chosen_tables:
        for looked in TABLE_CHECKS[table.format]:
            ran = _safely(looked.__name__, table.name, lambda c=looked, t=table: c(t))  # type: ignore[misc]
            findings += _limited(ran)
    findings.sort(key=lambda f: (_ORDER.index(f.severity), f.table or ""))
    return Report(
        lake=context.database.label,
        findings=tuple(findings),
        tables=len(chosen_tables),
        versions=sum(t.versions for t in chosen_tables),
        files=sum(t.files for t in chosen_tables),
        seconds=round(time.monotonic() - started, 3),
    )


def _store_itself(context: LakeContext) -> Iterator[Finding]:
    """Run the database's own integrity check; yield a finding for each problem."""
    try:
        problems = context.database.check()
    except LakewardError as error:
        problems = [error.what]
    for problem in problems:
        what = f"The store {context.database.label} is damaged: {problem}"
        yield Finding(Severity.ERROR, "store-damaged", what, RESTORE)


def _chosen(
    context: LakeContext, names: Sequence[str] | None, progress: Progress | None
) -> list[CheckedTable]:
    with context.database.read() as session:
        if names is None:
            chosen = heads.all_heads(session)
        else:
            chosen = [heads.get(session, TableName.parse(name)) for name in names]
        total = 0
        for head in chosen:
            first = commits.first_version(session, head.table_id) or 0
            total += head.version - first + 1
            total += totals.at(session, head.table_id, head.version).files
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None and done % 100 == 0:
            progress(done, total)

    return [
        CheckedTable(context, h.table_id, str(h.name), h.format, on_progress=step) for h in chosen
    ]


def _safely(
    check: str, table: str | None, run: Callable[[], Iterable[Finding]]
) -> Iterator[Finding]:
    """Run a check and yield its findings; if it raises, yield a finding instead."""
    try:
        yield from run()
    except LakewardError as error:
        what = f"The check {check!r} could not be finished: {error.what}"
        yield Finding(Severity.ERROR, "check-failed", what, error.hint or RESTORE, table)
    except Exception as error:  # noqa: BLE001  rows that are no rows of ours can break anything
        what = f"The check {check!r} met rows that it cannot read: {error!r}."
        yield Finding(Severity.ERROR, "check-failed", what, RESTORE, table)


def _limited(found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the first findings of each kind, then for each kind how many more there are."""
    counts: Counter[str] = Counter()
    last: dict[str, Finding] = {}
    for finding in found:
        counts[finding.code] += 1
        if counts[finding.code] <= LISTED:
            yield finding
        last[finding.code] = finding
    for code, count in counts.items():
        if count > LISTED:
            example = last[code]
            what = f"… and {count - LISTED:,} more of the kind {code}; the last: {example.what}"
            yield Finding(example.severity, code, what, example.mend, example.table)
