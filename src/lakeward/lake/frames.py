"""A table as a dataset or lazy frame, which other engines filter as they read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakeward.read.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.engines.arrow.dataset import LakeDataset
    from lakeward.model.parameters import Params


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

    def scan_polars(
        self,
        *,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> Any:
        """Return the current rows as a lazy Polars frame that passes filters down to the log.

        Polars does not pass an order on, so `scan_polars().sort(…).head(10)` reads all files. With
        `order_by`, `head(10)` reads only the files that can have the first rows.

        Args:
            order_by: Columns with their directions, as in SQL: `"day DESC, id"`, or a list of such
                texts. NaN is greater than all numbers and null greater than NaN, unless NULLS FIRST
                or NULLS LAST is given; ties keep the order of the table.
            limit: How many rows the frame has at most: the first ones of the order.
            where: A SQL boolean expression; the frame has only rows for which it is true.
            params: Values for `:name`, by name, or for `?`, in order.

        Raises:
            MissingExtra: Polars is not installed.
            InvalidExpression: A column is unknown or nested, or the text is wrong.
            InvalidInput: `limit` is no number of rows, or is given without `order_by`.
        """
        return self.at().scan_polars(order_by=order_by, limit=limit, where=where, params=params)
