"""Full names after a move: whatever the spelling, and only below the old place."""

from __future__ import annotations

import pytest

from lakeward.storage.paths import Move

LOCAL = Move(("/old/lake", "/link"), "/new")
REMOTE = Move(("s3://old/wh",), "s3://new")


@pytest.mark.parametrize(
    ("move", "name", "now"),
    [
        (LOCAL, "/old/lake/t/a.parquet", "/new/t/a.parquet"),
        (LOCAL, "/link/t/a.parquet", "/new/t/a.parquet"),
        (LOCAL, "file:/old/lake/a", "file:/new/a"),
        (LOCAL, "file:///old/lake/a", "file:///new/a"),
        (LOCAL, "/old/lake", "/new"),
        (LOCAL, "/old/lake2/a", "/old/lake2/a"),
        (LOCAL, "/elsewhere/old/lake/a", "/elsewhere/old/lake/a"),
        (LOCAL, "s3://old/lake/a", "s3://old/lake/a"),
        (LOCAL, "below/a", "below/a"),
        (REMOTE, "s3://old/wh/a", "s3://new/a"),
        (REMOTE, "s3a://old/wh/a", "s3://new/a"),
        (REMOTE, "s3://old/wh2/a", "s3://old/wh2/a"),
        (REMOTE, "/old/wh/a", "/old/wh/a"),
        (Move(("/old",), "s3://new/wh"), "file:/old/a", "s3://new/wh/a"),
        (Move(("s3://old",), "/new"), "s3a://old/a", "/new/a"),
    ],
)
def test_a_name_below_the_old_place_is_one_below_the_new(move: Move, name: str, now: str) -> None:
    assert move(name) == now
    assert (move.inside(name) is None) == (name == now)
