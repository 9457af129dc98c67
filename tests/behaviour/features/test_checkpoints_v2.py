"""Checkpoints by the second specification, with sidecars for large tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from lakeward.errors import InvalidInput
from lakeward.formats.delta import checkpoint
from tests.behaviour.lakes import unchanged

pytestmark = pytest.mark.formats("delta")
_V2 = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "4"}


def _log(table: lw.Table) -> Path:
    return Path(table.location.removeprefix("file://")) / "_delta_log"


def _columns(table: lw.Table) -> dict[str, list[Any]]:
    (path,) = _log(table).glob("*.checkpoint.parquet")
    found = pq.read_table(path)
    return {name: found[name].drop_null().to_pylist() for name in found.column_names}


@pytest.mark.parametrize("sidecars", [False, True])
@pytest.mark.local
def test_a_checkpoint_is_read_by_us_and_by_others(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch, *, sidecars: bool
) -> None:
    if sidecars:
        monkeypatch.setattr(checkpoint, "IN_ONE_FILE", 2)
    properties = {**_V2, "delta.enableRowTracking": "true"}
    table = lake.create("t", "id int64", properties=properties)
    for number in range(4):
        table.append([{"id": number}])
    lake.publish()
    found = _columns(table)
    assert [m["version"] for m in found["checkpointMetadata"]] == [4]
    assert len(found["sidecar"]) == (1 if sidecars else 0)
    assert len(found["add"]) == (0 if sidecars else 4)
    assert [d["domain"] for d in found["domainMetadata"]] == ["delta.rowTracking"]
    for name in found["sidecar"]:
        stored = (_log(table) / "_sidecars" / name["path"]).stat().st_size
        assert stored == name["sizeInBytes"]
    # Nobody can go by the older commits.
    for path in list(_log(table).glob("*.json"))[:]:
        if int(path.stem) < 4:
            path.unlink()
    others = QueryBuilder().register("t", DeltaTable(table.location))
    rows = others.execute("SELECT id FROM t ORDER BY id").read_all()
    assert rows["id"].to_pylist() == list(range(4))
    place = table.location
    lake.drop("t")
    again = lake.adopt("again", place, take_over=True)
    again.append([{"id": 4}])
    assert sorted(again.to_arrow()["id"].to_pylist()) == list(range(5))
    assert [f.file.extra["baseRowId"] for f in again.files() if f.file.extra][-1] == 4


@pytest.mark.local
def test_a_table_is_switched_to_the_second_specification(lake: lw.Lake) -> None:
    table = lake.create("t", "id int64", properties={"delta.checkpointInterval": "2"})
    table.append([{"id": 1}])
    table.alter().enable("v2_checkpoint").commit()
    lake.publish()
    assert "v2Checkpoint" in table.definition.protocol["readerFeatures"]
    assert [m["version"] for m in _columns(table)["checkpointMetadata"]] == [2]
    with unchanged(lake), pytest.raises(InvalidInput, match="classic or v2"):
        table.alter().set_property("delta.checkpointPolicy", "v3").commit()
