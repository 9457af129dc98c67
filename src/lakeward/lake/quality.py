"""The quality of a table's data, and its statistics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lakeward.context import LakeContext
from lakeward.model import arguments
from lakeward.read.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.model.quality.report import Quality
    from lakeward.model.statistics import Growth, TableStatistics

_POINTS: Final = 50


class Measured:
    """The part of a table's interface that measures its data."""

    _context: LakeContext

    @abstractmethod
    def at(self, *, version: int | None = None) -> TableSnapshot:
        """Return the table at a version, the newest unless given."""

    def quality(
        self,
        *,
        expectations: Mapping[str, Any] | None = None,
        version: int | None = None,
        measure: bool = True,
        points: int = _POINTS,
    ) -> Quality:
        """Measure the table's expectations, record the values with the version, and return them.

        Expectations are those of the table's policy, and those given. An expectation is a condition
        as text, or a mapping with `measure` (`rows`, `freshness`, `null_share`, `distinct`,
        `range`, `duplicates`, `drift`, `condition`, `sql`, `columns`, `check`) and its limits.
        No rows are refused: for each expectation that is not met, listeners get an event `quality`.

        Args:
            expectations: Additional expectations for this call, by name.
                `lakeward.integrations.pandera` makes them from schemas of Pandera.
            version: The version; the newest unless given.
            measure: False to return the last recorded values instead.
            points: How many earlier versions the series of each expectation has at most.

        Raises:
            InvalidInput: There is no such measure, or something that it needs is missing.
        """
        from lakeward.maintain import quality

        given = arguments.mapping(expectations, "expectations")
        snapshot = self.at(version=version)
        most = arguments.whole(points, "points", least=1)
        if not arguments.flag(measure, "measure"):
            return quality.recorded(self._context, snapshot, points=most)
        return quality.measure_table(self._context, snapshot, given, points=most)

    def statistics(
        self, *, version: int | None = None, distinct: Sequence[str] = ()
    ) -> TableStatistics:
        """Return the rows, files and bytes of a version, and nulls and bounds of its columns.

        They are computed from the log. The result is kept in the store, so that for a later version
        only new files are added. The number of distinct values of the columns `distinct` is
        estimated, with an error of about 0.7%: each file is read once, and its sketch is kept and
        merged with those of new files.

        Args:
            version: The version; the newest unless given.
            distinct: The columns whose distinct values are to be estimated.

        Raises:
            InvalidInput: The table has no such column, or its type is nested.
            MissingExtra: `distinct` is given, and datasketches is not installed.
        """
        from lakeward.maintain.statistics import version_statistics

        names = arguments.texts(distinct, "distinct")
        return version_statistics(self._context, self.at(version=version), names)

    def growth(self, *, limit: int = 100) -> list[Growth]:
        """Return rows, files and bytes after each of the newest versions, oldest first.

        For versions whose files vacuum has deleted, the numbers can be too small, because the log
        no longer has these files.

        Args:
            limit: How many versions at most.
        """
        from lakeward.maintain.statistics import growth

        return growth(self._context, self.at(), arguments.whole(limit, "limit", least=1))
