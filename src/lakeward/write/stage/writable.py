"""Whether the embedded engine may write a table, asked before a byte is written."""

from __future__ import annotations

from lakeward.errors import UnsupportedFeature
from lakeward.formats.properties import is_append_only
from lakeward.formats.registry import format_of
from lakeward.write.plan.change import Change


def check_writable(change: Change) -> None:
    """Refuse a table that only another engine can write.

    Raises:
        UnsupportedFeature: It uses what the embedded engine cannot write.
    """
    format_of(change.head).check_writable(change.definition, str(change.head.name))


def check_deletable(change: Change) -> None:
    """Refuse to remove rows of a table that only grows.

    Raises:
        UnsupportedFeature: The table is append-only.
    """
    if is_append_only(change.definition.properties):
        what = f"Table {change.head.name} is append-only."
        hint = "Rows can only be added. Make a table without the policy for rows that change."
        raise UnsupportedFeature(what, hint=hint, table=str(change.head.name))
