"""The quality of a table's data: its expectations, measured."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lakeward.context import LakeContext
from lakeward.model import arguments
from lakeward.read.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.model.quality.report import Quality

_POINTS: Final = 50


class Measured:
    """The part of a table that measures its data."""

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
        `range`, `duplicates`, `drift`, `condition`, `sql`) and its limits. Nothing is refused: an
        expectation that is not met is an event `quality`.

        Args:
            expectations: More of them, by name, for this call.
            version: The version; the newest unless given.
            measure: False to return what was measured before.
            points: How many earlier versions the series have at most.

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
