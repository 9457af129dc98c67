"""Metadata of Iceberg tables as old writers left it, or as others have cut it down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import CorruptTable, VersionNotFound
from tests.behaviour.iceberg.strangers import every_version
from tests.behaviour.iceberg.theirs import BY_DAY, eventful, their_catalog
from tests.behaviour.lakes import append, ids, unchanged


def _local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def _snapshots(table: Any) -> list[Any]:
    return sorted(table.metadata.snapshots, key=lambda s: s.timestamp_ms)


@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
def test_snapshots_of_version_1_may_name_their_manifests_themselves(
    one_lake: lw.Lake, name: str, tmp_path: Path, *, partitioned: bool
) -> None:
    options: dict[str, Any] = {"properties": {"format-version": "1"}}
    if partitioned:
        options["partition_spec"] = BY_DAY
    with their_catalog(tmp_path / "theirs") as theirs:
        made, expected = eventful(theirs, "shop.old", **options)
        document = json.loads(_local(made.metadata_location).read_text())
        assert document["format-version"] == 1
        for snapshot in document["snapshots"]:
            (known,) = [s for s in _snapshots(made) if s.snapshot_id == snapshot["snapshot-id"]]
            snapshot["manifests"] = [m.manifest_path for m in known.manifests(made.io)]
            _local(snapshot.pop("manifest-list")).unlink()
        place = _local(made.metadata_location).with_name("v9.metadata.json")
        place.write_text(json.dumps(document))
        table = one_lake.adopt(name, str(place))

    assert every_version(table) == expected
    assert ids(one_lake, name, where="id > 4") == [5, 6]


def test_a_missing_manifest_list_of_an_old_snapshot_costs_only_older_versions(
    one_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    with their_catalog(tmp_path / "theirs") as theirs:
        made, expected = eventful(theirs, "shop.cut")
        _local(_snapshots(made)[1].manifest_list).unlink()
        table = one_lake.adopt(name, made.metadata_location)

    assert every_version(table) == expected[2:]
    with pytest.raises(VersionNotFound, match="no version 3"):
        table.at(version=3)
    append(one_lake, name, [{"id": 9, "note": "new", "day": None}])
    assert ids(one_lake, name) == [3, 4, 5, 6, 9]


def test_a_missing_manifest_list_of_the_current_snapshot_is_refused(
    one_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    with their_catalog(tmp_path / "theirs") as theirs:
        made, _ = eventful(theirs, "shop.cut")
        _local(_snapshots(made)[-1].manifest_list).unlink()
        with unchanged(one_lake), pytest.raises(CorruptTable, match="is missing"):
            one_lake.adopt(name, made.metadata_location)
