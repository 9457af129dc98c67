"""Totals that are brought up from an older version are those of a count of all files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

import lakeward as lw
from tests.support.target import LakeTarget

_NOW: Final[dict[str, Any]] = {"retention": "0s", "force": True}
_STEPS: Final[dict[str, Callable[[lw.Table], object]]] = {
    "append": lambda t: t.append([{"n": n, "v": 0} for n in range(20)]),
    "several commits": lambda t: [t.append([{"n": n, "v": 1}]) for n in range(3)],
    "delete": lambda t: t.delete(where="n % 5 = 2"),
    "update": lambda t: t.update(where="n = 3", set={"v": "v + 1"}),
    "delete of marked files": lambda t: t.delete(where="n > 15"),
    "restore": lambda t: t.restore(version=2),
    "compaction": lambda t: t.optimize(),
    "overwrite": lambda t: t.overwrite([{"n": 1, "v": 1}]),
    "no rows": lambda t: t.delete(where="true"),
    "vacuum": lambda t: t.vacuum(**_NOW),
    "append after vacuum": lambda t: t.append([{"n": 7, "v": 7}]),
}

_RARELY: Final = ("delete", "compaction", "append after vacuum")
"""After these steps another handle is asked, which then has several commits to add. The version
that it knows is gone after the last of them."""


@pytest.mark.parametrize("merge_on_read", [False, True])
def test_totals_are_those_of_a_lake_that_counts_all_files(
    make_lake: Callable[..., lw.Lake], lake_target: LakeTarget, merge_on_read: bool
) -> None:
    lake = make_lake()
    if merge_on_read and lake_target.table_format == "iceberg":
        pytest.skip("Iceberg tables have no such policy")
    policy = {"merge_on_read": True} if merge_on_read else {}
    table = lake.create("t", "n int64, v int64", policy=policy)
    rare = make_lake()
    for what, step in _STEPS.items():
        step(table)
        known = [table, rare.table("t")] if what in _RARELY else [table]
        with lake_target.open() as counting:
            expected = counting.table("t").at()
            for one in known:
                assert one.totals() == expected.totals(), what
                assert one.at().info() == expected.info(), what
                assert one.count() == expected.to_arrow().num_rows, what
            version = max(0, expected.version - 2)
            if what != "vacuum" and "after" not in what:
                assert (
                    table.at(version=version).totals()
                    == counting.table("t").at(version=version).totals()
                )
