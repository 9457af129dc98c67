"""A snapshot as a dataset or lazy frame, which other engines filter as they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from lakeward.errors import InvalidInput

if TYPE_CHECKING:
    from lakeward.engines.arrow.dataset import LakeDataset
    from lakeward.model.parameters import Params
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

    def scan_polars(
        self,
        *,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> Any:
        """Return the rows as a lazy Polars frame that passes filters and columns to the log.

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
        from lakeward.model import arguments
        from lakeward.model.expressions import order_by as orders
        from lakeward.read.dataset import audited, lazy_frame_of

        if limit is not None:
            arguments.whole(limit, "limit")
            if order_by is None:
                what = "`limit` is for rows in an order, and `order_by` is missing."
                raise InvalidInput(what, hint="For any rows, write .head(n).", parameter="limit")
        snapshot = cast("Version", self)
        keys = [] if order_by is None else orders.parse(order_by, snapshot.schema)
        condition = snapshot.parsed(where, params)
        return lazy_frame_of(audited(snapshot), where=condition, order_by=keys, limit=limit)
