"""A snapshot as a dataset or lazy frame, which other engines filter as they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from lakeward.engines.arrow.dataset import LakeDataset
    from lakeward.read.dataset import Version


class Lazy:
    """A snapshot as an Arrow dataset and as a lazy Polars frame."""

    __slots__ = ()

    def to_dataset(self) -> LakeDataset:
        """Return the rows as an Arrow dataset, which engines filter and project as they read.

        It is a `pyarrow.dataset.Dataset` whose scanner lets the log skip files by the filter.
        Deleted rows, renamed columns and everything else are as in the table.
        """
        from lakeward.read.dataset import audited, dataset_of

        return dataset_of(audited(cast("Version", self)))

    def scan_polars(self) -> Any:
        """Return the rows as a lazy Polars frame that passes filters and columns to the log.

        Raises:
            MissingExtra: Polars is not installed.
        """
        from lakeward.read.dataset import audited, lazy_frame_of

        return lazy_frame_of(audited(cast("Version", self)))
