"""Delete stored statistics, which may count rows that were removed before a vacuum.

They are computed again from the log when somebody asks for them.
"""

from __future__ import annotations

STATEMENTS = ("DELETE FROM lakeward_statistics", "DELETE FROM lakeward_sketch")
