"""What a new Delta table demands: all that it uses, or Spark does not even read it."""

from __future__ import annotations

from typing import Any

import pytest

import lakeward as lw
from lakeward.formats.delta.protocol import GUARD, ICT


@pytest.mark.parametrize(
    ("schema", "options", "features"),
    [
        ("id int64", {}, set()),
        ("id int64 not null", {}, {"invariants"}),
        ("id int64", {"constraints": {"c": "id > 0"}}, {"checkConstraints"}),
        ("id int64", {"properties": {"delta.enableDeletionVectors": "true"}}, {"deletionVectors"}),
        ("id int64", {"properties": {"delta.enableChangeDataFeed": "true"}}, {"changeDataFeed"}),
    ],
)
def test_features_in_use_are_all_named(
    tmp_path: Any, schema: str, options: dict[str, Any], features: set[str]
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        protocol = lake.create("t", schema, **options).definition.protocol
        assert set(protocol["writerFeatures"]) == {GUARD, ICT, *features}
        readers = set(protocol.get("readerFeatures", ()))
        assert readers == features & {"deletionVectors"}
