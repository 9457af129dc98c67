"""Named configurations of Delta tables: kept by every write, in checkpoints and in copies."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import InvalidInput
from tests.behaviour.lakes import unchanged
from tests.support.delta_log import ID_NAME, Log
from tests.support.delta_rows import published

pytestmark = pytest.mark.formats("delta")
_PROTOCOL = {
    "minReaderVersion": 1,
    "minWriterVersion": 7,
    "writerFeatures": ["clustering", "domainMetadata", "appendOnly", "invariants"],
}
_CLUSTERING = json.dumps({"clusteringColumns": [["name"]]})


def _domain(name: str, text: str) -> dict[str, object]:
    return {"domainMetadata": {"domain": name, "configuration": text, "removed": False}}


def _clustered(place: Path) -> Path:
    domains = [_domain("delta.clustering", _CLUSTERING), _domain("user.mine", "x")]
    return Log(place).start(ID_NAME, *domains, protocol=_PROTOCOL).root


@pytest.mark.local
def test_a_clustered_table_is_written_and_stays_clustered(lake: lw.Lake, tmp_path: Path) -> None:
    table = lake.adopt("t", _clustered(tmp_path / "made"))
    table.alter().set_property("delta.checkpointInterval", "2").commit()
    for number in range(4):
        table.append([{"id": number, "name": "n"}])
    with lake.transaction() as tx:
        tx.update("t", set={"name": "'m'"}, where="id = 2")
    lake.publish()
    checkpoint = sorted((tmp_path / "made" / "_delta_log").glob("*.checkpoint.parquet"))[-1]
    found = pq.read_table(checkpoint, columns=["domainMetadata"])["domainMetadata"]
    kept = {d["domain"]: d["configuration"] for d in found.drop_null().to_pylist()}
    assert kept == {"delta.clustering": _CLUSTERING, "user.mine": "x"}
    copy = lake.clone("t", "copy")
    seen = {d["domain"]: d["configuration"] for d in published(copy, "domainMetadata")}
    assert seen == kept


def test_a_clustering_column_is_renamed_and_not_dropped(lake: lw.Lake, tmp_path: Path) -> None:
    table = lake.adopt("t", _clustered(tmp_path / "made"))
    with unchanged(lake), pytest.raises(InvalidInput, match="clustered by name"):
        table.alter().drop_column("name").commit()
    table.alter().rename_column("name", "title").commit()
    with unchanged(lake), pytest.raises(InvalidInput, match="clustered by title") as caught:
        table.alter().drop_column("title").commit()
    # The hint says what can be done: no statement changes the clustering of a table of the lake.
    assert caught.value.hint is not None
    assert "CLUSTER BY" not in caught.value.hint
    with lake.transaction() as tx:
        tx.sql("CREATE TABLE other AS SELECT * FROM t")
    lake.table("other").alter().drop_column("title").commit()
    assert "title" not in lake.table("other").schema.names
