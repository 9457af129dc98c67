"""The doctor on Iceberg tables: catalog, documents, manifests, litter; and what it mends."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.maintain.doctor import Finding, Severity, mend
from tests.behaviour.iceberg.strangers import Stranger
from tests.behaviour.lakes import append, delete, ids
from tests.maintain.damage import run_sql
from tests.support.delete_files import delete_in_place
from tests.support.inside import context_of
from tests.support.processes import kill_myself_at, start

NAME = "sales.orders"


@pytest.fixture
def store() -> str:
    """What is read are files, whatever the store."""
    return "sqlite"


@pytest.fixture
def table(lake: lw.Lake) -> lw.Table:
    made = lake.create(NAME, {"id": "int64", "part": "int64"}, format="iceberg")
    for n in (1, 2, 3):
        append(lake, NAME, {"id": [n, n * 10], "part": [n, n]})
    delete(lake, NAME, "id = 20")
    return made


def _found(lake: lw.Lake) -> list[Finding]:
    return [f for f in lake.doctor().findings if f.severity is not Severity.INFO]


def test_a_sound_table_is_healthy_whoever_wrote_it(
    lake: lw.Lake, table: lw.Table, stranger: Stranger
) -> None:
    stranger.append(NAME, [{"id": 4, "part": 4}])
    with stranger.table(NAME).update_schema() as update:
        update.rename_column("part", "piece")
    append(lake, NAME, {"id": [5], "piece": [5]})
    path = next(f.path for f in table.files(where="id = 3"))
    delete_in_place(stranger.table(NAME), {f"{table.location}/{path}": [0]})
    assert ids(lake, NAME) == [2, 3, 4, 5, 10, 30]

    report = lake.doctor()

    assert report.healthy
    assert [f.code for f in report.findings] == []
    assert (report.tables, report.versions) == (1, table.version + 1)


def test_a_foreign_commit_not_yet_taken_over_is_a_warning(
    lake: lw.Lake, table: lw.Table, stranger: Stranger
) -> None:
    stranger.append(NAME, [{"id": 4, "part": 4}])

    assert [(f.severity, f.code) for f in _found(lake)] == [(Severity.WARNING, "drift")]
    assert table.version == 5
    assert _found(lake) == []


def test_a_table_whose_document_is_gone_is_not_entered(
    lake: lw.Lake, table: lw.Table, stranger: Stranger
) -> None:
    place = Path(stranger.table(NAME).metadata_location)
    stranger.catalog.drop_table(NAME)
    place.unlink()
    report = lake.doctor()
    assert {"catalog-missing", "metadata-unreadable"} <= {f.code for f in report.findings}

    assert mend(context_of(lake), report).entered == ()
    assert stranger.catalog.list_tables("sales") == []


def test_another_table_in_its_place_is_an_error_that_is_not_mended(
    lake: lw.Lake, table: lw.Table, stranger: Stranger
) -> None:
    schema = stranger.table(NAME).schema()
    stranger.catalog.drop_table(NAME)
    stranger.catalog.create_table(NAME, schema, location=f"{lake.warehouse}/other")
    report = lake.doctor()
    assert {f.code for f in report.findings} == {"catalog-foreign"}

    assert mend(context_of(lake), report).entered == ()
    assert stranger.table(NAME).location() == f"{lake.warehouse}/other"


def test_a_table_that_others_made_is_told_of(
    lake: lw.Lake, table: lw.Table, stranger: Stranger
) -> None:
    stranger.catalog.create_table("sales.theirs", pa.schema([("id", pa.int64())]))

    (finding,) = lake.doctor().findings
    assert (finding.severity, finding.code) == (Severity.INFO, "not-adopted")
    assert "sales.theirs" in finding.what


def _document(theirs: Any) -> Path:
    return Path(theirs.metadata_location)


def _list(theirs: Any) -> Path:
    return Path(theirs.current_snapshot().manifest_list)


def _old_list(theirs: Any) -> Path:
    return Path(theirs.metadata.snapshots[0].manifest_list)


def _manifest(theirs: Any) -> Path:
    return Path(theirs.current_snapshot().manifests(theirs.io)[0].manifest_path)


def _old_manifest(theirs: Any) -> Path:
    snapshots = theirs.metadata.snapshots
    kept = {m.manifest_path for m in snapshots[-1].manifests(theirs.io)}
    older = (m.manifest_path for s in snapshots for m in s.manifests(theirs.io))
    return Path(next(path for path in older if path not in kept))


@pytest.mark.parametrize(
    ("which", "how"),
    [
        (_document, "gone"),
        (_document, "torn"),
        (_list, "gone"),
        (_list, "torn"),
        (_manifest, "gone"),
        (_manifest, "torn"),
        (_old_list, "gone"),
        (_old_list, "torn"),
        (_old_manifest, "gone"),
        (_old_manifest, "torn"),
    ],
)
def test_missing_and_torn_metadata_is_found(
    lake: lw.Lake, table: lw.Table, stranger: Stranger, which: Callable[[Any], Path], how: str
) -> None:
    path = which(stranger.table(NAME))
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-40])

    found = [f for f in _found(lake) if f.severity is Severity.ERROR]

    assert {f.code for f in found} <= {"metadata-unreadable", "metadata-missing"}
    assert any(path.name in f.what for f in found)
    # The log has all that reading takes.
    assert len(ids(lake, NAME)) == 5


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE lakeward_file SET size = size + 1 WHERE ordinal = 0", "by its manifest"),
        (
            "UPDATE lakeward_file SET path = 'other.parquet' WHERE added_version = 1",
            "in no manifest",
        ),
        ("DELETE FROM lakeward_file WHERE added_version = 1", "not in the log"),
    ],
)
def test_a_log_that_does_not_fit_the_manifests_is_found(
    lake: lw.Lake, table: lw.Table, change: str, says: str
) -> None:
    run_sql(lake, change)

    assert any(f.code == "metadata-wrong" and says in f.what for f in _found(lake))


def test_a_document_that_does_not_fit_the_log_is_found(
    lake: lw.Lake, table: lw.Table, stranger: Stranger
) -> None:
    """As after somebody put an older catalog row and head back by hand."""
    old = stranger.table(NAME).metadata.metadata_log[-1].metadata_file
    run_sql(lake, "UPDATE lakeward_head SET pointer = :old", old=old)
    run_sql(lake, "UPDATE iceberg_tables SET metadata_location = :old", old=old)

    found = [f for f in _found(lake) if f.code == "metadata-wrong"]
    assert any("snapshot" in f.what for f in found)
    assert any("is in no manifest" in f.what for f in found)


def test_metadata_of_a_commit_that_was_cut_off_is_reclaimable(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        lake.create("a", {"id": "int64"}, format="iceberg")
        append(lake, "a", {"id": [1]})
        assert lake.doctor().findings == ()
    worker = start(_die, str(tmp_path))
    worker.finish()
    assert worker.killed

    with lw.open(tmp_path, repair=False) as lake:
        # Until its lease runs out, the transaction may still be alive.
        assert {f.code for f in lake.doctor().findings} == {"transaction-open"}
        run_sql(lake, "UPDATE lakeward_transaction SET state = 'expired' WHERE state = 'open'")
        found = [f for f in lake.doctor().findings if f.code == "reclaimable"]
        assert any("3 metadata files of a" in f.what for f in found)
        assert any("1 file below a" in f.what for f in found)
        assert lake.doctor().healthy


def _die(pipe: Connection, directory: str) -> None:
    with lw.open(directory) as lake:
        pipe.send("ready")
        tx = lake.transaction()
        tx.append("a", {"id": [2]})
        kill_myself_at("iceberg.prepared", 1)
        tx.commit()
