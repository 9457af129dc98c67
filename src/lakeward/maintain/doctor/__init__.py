"""The doctor: checks every invariant of a lake, and reports what is wrong and how to repair it."""

from __future__ import annotations

from lakeward.maintain.doctor.examination import examine
from lakeward.maintain.doctor.findings import Finding, Mended, Report, Severity
from lakeward.maintain.doctor.mending import mend

__all__ = ["Finding", "Mended", "Report", "Severity", "examine", "mend"]
