"""The records that a lake answers with, for the layers that render them."""

from __future__ import annotations

from lakeward.lake.branch import BranchInfo as BranchInfo
from lakeward.lake.snapshot import Cut as Cut
from lakeward.log.audit import AuditEntry as AuditEntry
from lakeward.maintain.backup import StoreCopy as StoreCopy
from lakeward.maintain.doctor import Finding as Finding
from lakeward.maintain.doctor import Mended as Mended
from lakeward.maintain.doctor import Report as Report
from lakeward.maintain.doctor import Severity as Severity
from lakeward.maintain.rebuild import Rebuilt as Rebuilt
from lakeward.maintain.relocate import Relocated as Relocated
from lakeward.model.events import CommitEvent as CommitEvent
from lakeward.model.locks import LockWait as LockWait
from lakeward.model.locks import TableLock as TableLock
from lakeward.model.row_counts import RowCounts as RowCounts
from lakeward.read.describe import Page as Page
from lakeward.read.describe import TableDetails as TableDetails
from lakeward.read.describe import TableInfo as TableInfo
from lakeward.read.diff import Diff as Diff
from lakeward.read.diff import FileInfo as FileInfo
from lakeward.read.diff import PartitionChange as PartitionChange
from lakeward.read.diff import SchemaChange as SchemaChange
from lakeward.read.history import Stats as Stats
from lakeward.read.history import TransactionRecord as TransactionRecord
from lakeward.read.history import Version as Version
from lakeward.read.runs import RunRecord as RunRecord
from lakeward.read.schemas import SchemaVersion as SchemaVersion
from lakeward.read.snapshot import Totals as Totals
from lakeward.read.violations import ViolationRecord as ViolationRecord
from lakeward.stream.consume import Consumed as Consumed
from lakeward.write.branch.named import BranchDiff as BranchDiff
from lakeward.write.commit.outcome import Outcome as Outcome
from lakeward.write.transaction.lifecycle import CommitResult as CommitResult
