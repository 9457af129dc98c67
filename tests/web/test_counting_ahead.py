"""The files of tables are counted when the service starts, so that its first pages are fast."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import lakeward as lw
from lakeward.log import sizes, totals
from lakeward.web.counting_ahead import count_all, counting
from tests.support.service import made_lake


def test_tables_that_were_counted_ahead_are_not_counted_again(tmp_path: Path) -> None:
    with (
        mock.patch.object(totals, "at", wraps=totals.at) as counted,
        mock.patch.object(sizes, "at", wraps=sizes.at) as classed,
        made_lake(tmp_path / "lake") as lake,
    ):
        counted.reset_mock()
        count_all(lake, lambda: False)
        assert (counted.call_count, classed.call_count) == (3, 3)
        lake.table("gold.secret_plans").append([{"id": 1}])
        for name, files in {"gold.secret_plans": 1, "sales.orders": 2}.items():
            table = lake.table(name)
            assert table.at().info().files == sum(c.files for c in table.file_sizes()) == files
        assert (counted.call_count, classed.call_count) == (3, 3)


def test_counting_ends_with_the_service(tmp_path: Path) -> None:
    with made_lake(tmp_path / "lake") as lake:
        with mock.patch.object(totals, "at", wraps=totals.at) as counted:
            count_all(lake, lambda: True)
        assert counted.call_count == 0
        with counting(lake, lambda: False):
            pass
        assert "lakeward-count" not in {one.name for one in threading.enumerate()}


def test_a_table_that_is_dropped_meanwhile_does_not_end_the_counting(tmp_path: Path) -> None:
    with made_lake(tmp_path / "lake") as lake:
        dropped, *others = [table.name for table in lake.tables()]
        with mock.patch.object(totals, "at", wraps=totals.at) as counted:
            count_all(lake, _drop_at_first(lake, dropped))
        assert counted.call_count == len(others) > 0


def _drop_at_first(lake: lw.Lake, name: str) -> Callable[[], bool]:
    """Return a function that drops a table when it is first called, and returns False."""
    names = [name]

    def stopping() -> bool:
        if names:
            lake.drop(names.pop())
        return False

    return stopping
