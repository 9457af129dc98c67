"""What is published stays bounded, and other engines go on reading it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import time_machine

import lakeward as lw
from lakeward.context import context_of
from lakeward.errors import InvalidInput
from lakeward.formats.delta import checkpoint
from lakeward.log import retired
from tests.behaviour.iceberg.strangers import Stranger
from tests.support.delete_files import data_files, delete_in_place
from tests.support.iceberg import stranger_table
from tests.support.invariants import rows_of, stranger_rows
from tests.support.s3 import on_disk

NOW: dict[str, Any] = {"retention": "0s", "force": True}


def names(lake: lw.Lake, directory: str) -> list[str]:
    """The files in a directory of the table."""
    return sorted(p.name for p in (on_disk(lake.table("t").location) / directory).iterdir())


def test_commits_before_a_checkpoint_go_and_strangers_read_on(lake: lw.Lake) -> None:
    table = lake.create("t", {"n": "int64"}, format="delta")
    for n in range(6):
        table.append([{"n": n}])
    assert table.expire(**NOW).state == "nothing", "no checkpoint makes up for the commits"
    assert table.checkpoint().state == "done"
    table.append([{"n": 6}])

    assert table.expire(**NOW, dry_run=True).plan.files == 6
    done = table.expire(**NOW)

    assert done.job is not None
    assert done.job.done.files == 6
    assert names(lake, "_delta_log") == [
        "00000000000000000006.checkpoint.parquet",
        "00000000000000000006.json",
        "00000000000000000007.json",
        "_last_checkpoint",
    ]
    assert stranger_rows(table.location) == rows_of(table.to_arrow())
    assert table.at(version=3).count() == 3, "the log has all versions"
    assert lake.doctor().healthy
    table.append([{"n": 7}])
    assert lake.doctor().healthy


def test_a_table_without_checkpoints_has_none_to_write(lake: lw.Lake) -> None:
    table = lake.create("t", {"n": "int64"}, format="iceberg")

    assert table.checkpoint().state == "nothing"


def test_a_retention_below_an_hour_needs_force(lake: lw.Lake) -> None:
    table = lake.create("t", {"n": "int64"})

    with pytest.raises(InvalidInput, match="one hour"):
        table.expire(retention="10m")


def test_documents_list_the_newest_snapshots_and_those_that_are_named(lake: lw.Lake) -> None:
    properties = {"lakeward.snapshots": "4"}
    table = lake.create("t", {"n": "int64"}, format="iceberg", properties=properties)
    table.append([{"n": 0}])
    lake.tag("first")
    for n in range(1, 30):
        table.append([{"n": n}])

    listed = stranger_table(lake, "t").metadata

    first = table.at(version=1).snapshot_id
    assert 5 <= len(listed.snapshots) <= 6
    assert first in {s.snapshot_id for s in listed.snapshots}
    assert {e.snapshot_id for e in listed.snapshot_log} <= {s.snapshot_id for s in listed.snapshots}
    old = stranger_table(lake, "t").scan(snapshot_id=first).to_arrow()
    assert old.to_pylist() == [{"n": 0}]
    assert table.at(version=10).count() == 10
    assert stranger_table(lake, "t").scan().to_arrow().num_rows == 30
    assert lake.doctor().healthy


def test_the_log_retention_of_a_policy_decides(lake: lw.Lake) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=3)
    with time_machine.travel(long_ago):
        table = lake.create("t", {"n": "int64"}, format="delta", policy={"log_retention": "2d"})
        for n in range(4):
            table.append([{"n": n}])
        table.checkpoint()
        table.append([{"n": 4}])
    for path in (on_disk(table.location) / "_delta_log").iterdir():
        os.utime(path, (long_ago.timestamp(), long_ago.timestamp()))

    assert table.expire(retention="4d").state == "nothing"
    done = table.expire()

    assert done.job is not None
    assert done.job.done.files == 4
    assert rows_of(table.to_arrow()) == stranger_rows(table.location)


def test_documents_list_young_snapshots_however_many(lake: lw.Lake) -> None:
    properties = {"lakeward.snapshots": "2", "lakeward.snapshot-age": "1h"}
    with time_machine.travel(datetime.now(UTC) - timedelta(hours=3)):
        table = lake.create("t", {"n": "int64"}, format="iceberg", properties=properties)
        for n in range(5):
            table.append([{"n": n}])
    for n in range(6):
        table.append([{"n": n}])
    assert len(stranger_table(lake, "t").metadata.snapshots) == 6


def test_documents_stay_when_the_table_says_so(lake: lw.Lake) -> None:
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "false",
    }
    table = lake.create("t", {"n": "int64"}, format="iceberg", properties=properties)
    for n in range(8):
        table.append([{"n": n}])
    assert len([n for n in names(lake, "metadata") if n.endswith(".metadata.json")]) == 9


def test_documents_that_newer_ones_no_longer_name_are_deleted(lake: lw.Lake) -> None:
    properties = {"write.metadata.previous-versions-max": "3"}
    table = lake.create("t", {"n": "int64"}, format="iceberg", properties=properties)
    for n in range(10):
        table.append([{"n": n}])

    documents = [n for n in names(lake, "metadata") if n.endswith(".metadata.json")]

    assert len(documents) == 4
    assert lake.doctor().healthy
    log = orjson.loads(Path(str(table.metadata_location)).read_bytes())["metadata-log"]
    assert all(Path(e["metadata-file"]).exists() for e in log)


def test_lists_of_vacuumed_versions_go_and_the_others_stay(lake: lw.Lake) -> None:
    table = lake.create(
        "t", {"n": "int64"}, format="iceberg", properties={"lakeward.snapshots": "2"}
    )
    for n in range(12):
        table.overwrite([{"n": n}])
    before = [n for n in names(lake, "metadata") if n.startswith("snap-")]
    assert table.expire(**NOW).state == "nothing", "all versions can still be read"
    table.vacuum(**NOW)

    table.expire(**NOW)

    after = [n for n in names(lake, "metadata") if n.startswith("snap-")]
    assert len(before) == 12
    assert len(after) <= 3
    assert stranger_table(lake, "t").scan().to_arrow().to_pylist() == [{"n": 11}]
    for snapshot in stranger_table(lake, "t").metadata.snapshots:
        assert Path(snapshot.manifest_list).exists()
    assert lake.doctor().healthy


def test_a_version_that_the_document_does_not_list_is_restored(lake: lw.Lake) -> None:
    table = lake.create(
        "t", {"n": "int64"}, format="iceberg", properties={"lakeward.snapshots": "2"}
    )
    for n in range(8):
        table.overwrite([{"n": n}])
    with lake.transaction() as tx:
        tx.restore("t", version=2)

    assert table.to_arrow().to_pylist() == [{"n": 1}]
    assert stranger_table(lake, "t").scan().to_arrow().to_pylist() == [{"n": 1}]


def test_a_restore_of_a_version_that_is_vacuumed_meanwhile_is_refused(lake: lw.Lake) -> None:
    table = lake.create("t", {"n": "int64"})
    for n in range(3):
        table.overwrite([{"n": n}])
    context, table_id = context_of(lake), table.at().log_head.table_id

    tx = lake.transaction()
    tx.restore("t", version=1)
    with context.database.write() as session:
        retired.retire(session, table_id, [(1, 2)])
    with pytest.raises(lw.errors.VersionNotFound):
        tx.commit()
    assert table.to_arrow().to_pylist() == [{"n": 2}]
    with pytest.raises(lw.errors.VersionNotFound), lake.transaction() as tx:
        tx.restore("t", version=1)


@pytest.mark.parametrize("damage", ["torn", "incomplete"])
def test_commits_stay_when_the_checkpoint_that_replaces_them_is_damaged(
    lake: lw.Lake, damage: str
) -> None:
    table = lake.create("t", {"n": "int64"}, format="delta")
    for n in range(3):
        table.append([{"n": n}])
    table.checkpoint()
    log = on_disk(table.location) / "_delta_log"
    (path,) = log.glob("*.checkpoint.parquet")
    if damage == "torn":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        found = pq.read_table(path)
        pq.write_table(found.filter(pc.is_null(found["add"]).combine_chunks()), path)

    assert table.expire(**NOW).state == "nothing"
    table.checkpoint()
    assert table.expire(**NOW).state == "done"
    assert stranger_rows(table.location) == rows_of(table.to_arrow())


def test_sidecars_of_deleted_checkpoints_go_and_young_ones_stay(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "IN_ONE_FILE", 1)
    table = lake.create("t", "n int64", properties={"delta.checkpointPolicy": "v2"})
    for n in range(4):
        table.append([{"n": n}])
        if n:
            table.checkpoint()
    made = names(lake, "_delta_log/_sidecars")
    assert len(made) == 3
    place = on_disk(table.location) / "_delta_log" / "_sidecars"
    first = min(made, key=lambda name: (place / name).stat().st_mtime_ns)
    long_ago = (place / first).stat().st_mtime - 7200
    os.utime(place / first, (long_ago, long_ago))

    table.expire(**NOW)

    assert names(lake, "_delta_log/_sidecars") == sorted(set(made) - {first})
    assert stranger_rows(table.location) == rows_of(table.to_arrow())
    assert lake.doctor().healthy


def test_manifests_that_a_restored_version_uses_again_stay(lake: lw.Lake) -> None:
    """A restore beside delete files takes over manifests of versions that are vacuumed later."""
    long_ago = datetime.now(UTC) - timedelta(hours=3)
    with time_machine.travel(long_ago):
        table = lake.create(
            "t", {"n": "int64"}, format="iceberg", properties={"lakeward.snapshots": "2"}
        )
        table.append([{"n": 77}])
        table.overwrite([{"n": n} for n in range(5)])
        theirs = stranger_table(lake, "t")
        delete_in_place(theirs, {data_files(theirs)[0].file_path: [3]})
        table.overwrite([{"n": 99}])
    for path in on_disk(table.location).glob("*.parquet"):
        os.utime(path, (long_ago.timestamp(), long_ago.timestamp()))
    table.restore(version=3)
    restored = rows_of(table.to_arrow())
    for n in range(5):
        table.overwrite([{"n": n}])
    table.vacuum(retention="1h", force=True)
    with pytest.raises(lw.errors.VersionNotFound):
        table.at(version=3).to_arrow()
    table.expire(**NOW)

    table.restore(version=5)

    assert rows_of(table.to_arrow()) == restored
    assert rows_of(stranger_table(lake, "t").scan().to_arrow()) == restored


@pytest.mark.parametrize("holder", ["tag", "past tag", "pin"])
def test_manifests_of_a_version_that_was_held_when_others_were_vacuumed_stay(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake], holder: str
) -> None:
    table = lake.create(
        "t", {"n": "int64"}, format="iceberg", properties={"lakeward.snapshots": "2"}
    )
    for n in range(2):
        table.append([{"n": n}])
    # Version 2 is vacuumed for the file of this row; version 3 uses its manifest.
    table.delete(where="n = 0")
    with ExitStack() as stack:
        if holder == "pin":
            stack.enter_context(lake.snapshot())
        else:
            lake.tag("held")
        for n in range(5):
            table.overwrite([{"n": n}])
        table.vacuum(**NOW)
        if holder == "past tag":
            lake.untag("held")
            table.append([{"n": 9}])
        table.expire(**NOW)

        # This process has not read the manifests before.
        make_lake().table("t").restore(version=3)

    assert table.to_arrow().to_pylist() == [{"n": 1}]
    assert rows_of(stranger_table(lake, "t").scan().to_arrow()) == rows_of(table.to_arrow())


def test_a_tagged_version_is_read_and_restored_after_its_commits_are_deleted(
    lake: lw.Lake,
) -> None:
    table = lake.create("t", {"n": "int64"}, format="delta")
    for n in range(4):
        table.overwrite([{"n": n}])
    lake.tag("kept", at=table.history()[2].transaction_id)
    assert table.checkpoint().state == "done"

    assert table.expire(**NOW).state == "done"
    table.vacuum(**NOW)

    assert "00000000000000000002.json" not in names(lake, "_delta_log")
    assert table.at(tag="kept").to_arrow().to_pylist() == [{"n": 1}]
    lake.restore(at="kept")
    assert table.to_arrow().to_pylist() == [{"n": 1}]
    assert stranger_rows(table.location) == rows_of(table.to_arrow())
    assert lake.doctor().healthy


@pytest.mark.parametrize("change", ["rollback", "append"])
@pytest.mark.parametrize("vacuumed", [False, True])
def test_a_version_by_another_engine_is_restored_after_its_snapshot_is_not_listed(
    lake: lw.Lake, stranger: Stranger, change: str, *, vacuumed: bool
) -> None:
    table = lake.create(
        "t", {"n": "int64"}, format="iceberg", properties={"lakeward.snapshots": "2"}
    )
    table.append([{"n": 0}])
    table.append([{"n": 1}])
    table.overwrite([{"n": 2}])
    theirs = stranger.table("t")
    if change == "rollback":
        theirs.manage_snapshots().rollback_to_snapshot(theirs.snapshots()[-2].snapshot_id).commit()
    else:
        stranger.append("t", [{"n": 3}])
    version, expected = table.version, table.to_arrow()
    moment = table.at(version=version).timestamp
    for n in range(6):
        table.overwrite([{"n": 10 + n}])
    if vacuumed:
        lake.tag("held", at=moment)
        table.vacuum(**NOW)
    table.expire(**NOW)

    table.restore(version=version)

    assert rows_of(table.to_arrow()) == rows_of(expected)
    assert rows_of(stranger.rows("t")) == rows_of(expected)
    assert lake.doctor().healthy


def test_documents_that_a_table_keeps_are_not_expired(lake: lw.Lake) -> None:
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "false",
    }
    table = lake.create("t", {"n": "int64"}, format="iceberg", properties=properties)
    for n in range(8):
        table.append([{"n": n}])

    assert table.expire(**NOW).state == "nothing"
    assert len([n for n in names(lake, "metadata") if n.endswith(".metadata.json")]) == 9


@pytest.mark.parametrize(
    ("table_format", "key"), [("delta", "delta.enableExpiredLogCleanup"), ("iceberg", "gc.enabled")]
)
def test_metadata_that_a_table_keeps_is_not_expired(
    lake: lw.Lake, table_format: str, key: str
) -> None:
    properties = (
        {key: "false", "lakeward.snapshots": "2"} if key == "gc.enabled" else {key: "false"}
    )
    table = lake.create("t", {"n": "int64"}, format=table_format, properties=properties)
    for n in range(8):
        table.overwrite([{"n": n}])
    table.checkpoint()
    before = names(lake, "_delta_log" if table_format == "delta" else "metadata")

    done = table.expire(**NOW)

    assert done.state == "nothing"
    assert done.plan.notes == (f"t: {key}=false: nothing is deleted.",)
    assert names(lake, "_delta_log" if table_format == "delta" else "metadata") == before
    table.alter().set_property(key, "true").commit()
    if table_format == "iceberg":
        table.vacuum(**NOW)
    assert table.expire(**NOW).state == "done"
