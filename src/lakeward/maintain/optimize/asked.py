"""Options of a compaction."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.errors import UnsupportedFeature
from lakeward.model.layout import Layout, LayoutKind


@dataclass(frozen=True, slots=True)
class Asked:
    """Options of a compaction.

    Attributes:
        layout: The order of rows.
        where: Only files that may have matching rows; all when None.
        target: Target size of a file on disk, in bytes.
        purge: Rewrite every file that has deleted rows, however few.
    """

    layout: Layout
    where: str | None
    target: int
    purge: bool


def check_on_spark(asked: Asked) -> None:
    """Raise `UnsupportedFeature` for options that Spark's statement does not have."""
    if asked.layout.kind in (LayoutKind.HILBERT, LayoutKind.SORT):
        what = f"Spark's OPTIMIZE has no {asked.layout.kind.value}."
        raise UnsupportedFeature(what, hint="Leave `spark` out, or use zorder.")
