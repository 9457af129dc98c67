"""A table as a dataset or lazy frame, which other engines filter as they read."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from lakeward.read.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.engines.arrow.dataset import LakeDataset


class Frames:
    """A table's newest version as an Arrow dataset and as a lazy Polars frame."""

    __slots__ = ()

    @abstractmethod
    def at(self) -> TableSnapshot:
        """Return the table at its newest version."""

    def to_dataset(self) -> LakeDataset:
        """Return the current rows as an Arrow dataset, which engines filter as they read.

        It is a `pyarrow.dataset.Dataset` whose scanner lets the log skip files by the filter.
        Deleted rows, renamed columns and everything else are as in the table.
        """
        return self.at().to_dataset()

    def scan_polars(self) -> Any:
        """Return the current rows as a lazy Polars frame that passes filters down to the log.

        Raises:
            MissingExtra: Polars is not installed.
        """
        return self.at().scan_polars()
