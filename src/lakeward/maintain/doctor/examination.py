"""The examination: every check over every table, one finding after another.

It reads and never writes. Others may go on working: each check looks at one consistent state, in an
order that does not take their work for damage.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.log import commits, files, heads
from lakeward.maintain.doctor import (
    derived_check,
    file_checks,
    iceberg_checks,
    iceberg_litter,
    log_checks,
    published_checks,
    statistics_check,
    transaction_checks,
)
from lakeward.maintain.doctor.patient import RESTORE, Check, Patient
from lakeward.maintain.doctor.report import Finding, Report, Severity
from lakeward.model.names import TableName

Progress = Callable[[int, int | None], None]
LISTED: Final = 20
"""How many findings of one kind are told of a table; the rest is counted."""

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
    statistics_check.statistics,
    derived_check.derived_partitions,
)
FILE_CHECKS: Final[tuple[Check, ...]] = (file_checks.data_files, file_checks.reclaimable)
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
        iceberg_litter.metadata_litter,
    ),
}
_ORDER: Final = list(Severity)


def examine(
    context: LakeContext, *, tables: Sequence[str] | None = None, progress: Progress | None = None
) -> Report:
    """Check every invariant of the store against itself and against the published files.

    Args:
        context: The lake's; open it with `repair=False` to see it as it is.
        tables: Names; all when None.
        progress: Called with how much is done, and of how much.

    Raises:
        TableNotFound: A name is unknown.
    """
    started = time.monotonic()
    findings = list(_store_itself(context))
    patients = _patients(context, tables, progress)
    for check in STORE_CHECKS:
        findings += _limited(_safely(check.__name__, None, lambda c=check: c(context)))  # type: ignore[misc]
    for patient in patients:
        for looked in TABLE_CHECKS[patient.format]:
            ran = _safely(looked.__name__, patient.name, lambda c=looked, p=patient: c(p))  # type: ignore[misc]
            findings += _limited(ran)
    findings.sort(key=lambda f: (_ORDER.index(f.severity), f.table or ""))
    return Report(
        findings=tuple(findings),
        tables=len(patients),
        versions=sum(p.versions for p in patients),
        files=sum(p.files for p in patients),
        seconds=time.monotonic() - started,
    )


def _store_itself(context: LakeContext) -> Iterator[Finding]:
    """The database's own integrity check."""
    try:
        problems = context.database.check()
    except LakewardError as error:
        problems = [error.what]
    for problem in problems:
        what = f"The store {context.database.label} is damaged: {problem}"
        yield Finding(Severity.ERROR, "store-damaged", what, RESTORE)


def _patients(
    context: LakeContext, names: Sequence[str] | None, progress: Progress | None
) -> list[Patient]:
    with context.database.read() as session:
        if names is None:
            chosen = heads.all_heads(session)
        else:
            chosen = [heads.get(session, TableName.parse(name)) for name in names]
        total = 0
        for head in chosen:
            first = commits.first_version(session, head.table_id) or 0
            total += head.version - first + 1
            total += files.totals(session, head.table_id, head.version)[0]
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None and done % 100 == 0:
            progress(done, total)

    return [Patient(context, h.table_id, str(h.name), h.format, on_progress=step) for h in chosen]


def _safely(
    check: str, table: str | None, run: Callable[[], Iterable[Finding]]
) -> Iterator[Finding]:
    """Run a check. One that trips over what it reads has found something too."""
    try:
        yield from run()
    except LakewardError as error:
        what = f"The check {check!r} could not be finished: {error.what}"
        yield Finding(Severity.ERROR, "check-failed", what, error.hint or RESTORE, table)
    except Exception as error:  # noqa: BLE001  rows that are no rows of ours can break anything
        what = f"The check {check!r} met rows that it cannot read: {error!r}."
        yield Finding(Severity.ERROR, "check-failed", what, RESTORE, table)


def _limited(found: Iterable[Finding]) -> Iterator[Finding]:
    """The first findings of each kind, and how many more there are."""
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
