"""The records that a lake answers with, for the layers that render them."""

from __future__ import annotations

from lakeward.lake.branch import BranchInfo
from lakeward.lake.snapshot import Cut
from lakeward.maintain.backup import StoreCopy
from lakeward.maintain.doctor import Finding, Mended, Report, Severity
from lakeward.maintain.rebuild import Rebuilt
from lakeward.maintain.relocate import Relocated
from lakeward.model.events import CommitEvent
from lakeward.model.locks import LockWait, TableLock
from lakeward.read.describe import Page, TableDetails, TableInfo
from lakeward.read.diff import Diff, FileInfo, SchemaChange
from lakeward.read.history import Stats, TransactionRecord, Version
from lakeward.read.runs import RunRecord
from lakeward.read.snapshot import Totals
from lakeward.stream.consume import Consumed
from lakeward.write.branch.named import BranchDiff
from lakeward.write.commit.outcome import Outcome
from lakeward.write.transaction.lifecycle import CommitResult

__all__ = [
    "BranchDiff",
    "BranchInfo",
    "CommitEvent",
    "CommitResult",
    "Consumed",
    "Cut",
    "Diff",
    "FileInfo",
    "Finding",
    "LockWait",
    "Mended",
    "Outcome",
    "Page",
    "Rebuilt",
    "Relocated",
    "Report",
    "RunRecord",
    "SchemaChange",
    "Severity",
    "Stats",
    "StoreCopy",
    "TableDetails",
    "TableInfo",
    "TableLock",
    "Totals",
    "TransactionRecord",
    "Version",
]
