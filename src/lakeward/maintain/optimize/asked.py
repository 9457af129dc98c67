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
        where: Only files that may have rows that match this condition; None for all files.
        target: Target size of a file on disk, in bytes.
        purge: Rewrite every file that has deleted rows, however few.
        is_sized: Whether the caller gave the target size; otherwise it is the policy's.
    """

    layout: Layout
    where: str | None
    target: int
    purge: bool
    is_sized: bool = False


def check_on_spark(asked: Asked) -> None:
    """Raise `UnsupportedFeature` for options that Spark's statement does not have."""
    if asked.layout.kind in (LayoutKind.HILBERT, LayoutKind.SORT):
        what = f"Spark's OPTIMIZE has no {asked.layout.kind.value}."
        raise UnsupportedFeature(what, hint="Leave `spark` out, or use zorder.")
    given = {"target_size": asked.is_sized, "purge": asked.purge}
    for name in (n for n, is_given in given.items() if is_given):
        what = f"Spark's OPTIMIZE takes no {name}."
        hint = "Leave `spark` out, or set the policy's target_file_size."
        raise UnsupportedFeature(what, hint=hint if name == "target_size" else "Leave `spark` out.")
