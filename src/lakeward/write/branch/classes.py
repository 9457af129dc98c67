"""The branch class of each format."""

from __future__ import annotations

from lakeward.write.branch.base import Branch
from lakeward.write.branch.delta import DeltaBranch
from lakeward.write.branch.iceberg import IcebergBranch

_CLASSES: dict[str, type[Branch]] = {"delta": DeltaBranch, "iceberg": IcebergBranch}


def branch_class(format: str) -> type[Branch]:  # noqa: A002  the name users know
    """Return the class whose `open` creates branches of tables in this format."""
    return _CLASSES[format]
