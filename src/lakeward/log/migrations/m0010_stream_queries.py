"""Bind the cursor of a stream to one Spark query, whose checkpoint numbers the batches."""

from __future__ import annotations

STATEMENTS = ("ALTER TABLE lakeward_cursor ADD COLUMN reader TEXT",)
