"""What is published is what the log says: every version, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

import lakeward as lw
from lakeward.formats.delta.publication import commit_bytes
from lakeward.log import commits, definitions, heads
from lakeward.log.statement import Statement
from lakeward.model.names import TableName
from tests.behaviour.lakes import append, delete, log_files, overwrite
from tests.behaviour.samples import everything
from tests.support.inside import context_of
from tests.support.s3 import on_disk

pytestmark = pytest.mark.formats("delta")


def _from_the_log(lake: lw.Lake, name: str) -> list[bytes]:
    """The bytes of each version, made of the log's rows alone."""
    with context_of(lake).database.read() as session:
        head = heads.get(session, TableName.parse(name))
        return [
            commit_bytes(
                head,
                commits.full(session, head.table_id, version),
                definitions.at(session, head.table_id, version)[1],
            )
            for version in range(head.version + 1)
        ]


def _actions(path: Path) -> list[tuple[str, dict[str, Any]]]:
    lines = map(orjson.loads, path.read_bytes().splitlines())
    return [next(iter(line.items())) for line in lines]


@pytest.fixture
def busy(shared_lake: lw.Lake, name: str) -> lw.Table:
    """A table to which all kinds of things have happened."""
    data = everything("delta").slice(1)  # an empty text cannot name a partition
    table = shared_lake.create(
        name,
        data.schema,
        partition_by=["string", "boolean"],
        properties={"owner": 'ünï "quoted"'},
        constraints={"numbered": "id >= 0"},
        comment="line\nbreak",
    )
    append(shared_lake, name, data)
    delete(shared_lake, name, "id = 1")
    with shared_lake.transaction(message="a message\nof two lines") as tx:
        tx.overwrite(name, data, where="string = 'a' OR string <> 'a' OR string IS NULL")
        tx.record(name, "app", 3)
    with shared_lake.transaction() as tx:
        tx.sql(f"UPDATE {name} SET int16 = ? WHERE id = ?", [2, 3])
        tx.sql(f"DELETE FROM {name} WHERE id IN (SELECT max(id) FROM {name})")
    with shared_lake.transaction() as tx:
        tx.sql(f"DELETE FROM {name} WHERE id = :id", {"id": -1})
        tx.sql(f"DELETE FROM {name} WHERE id = :id", {"id": 2})
    with shared_lake.transaction() as tx:
        tx.remove_files(name, [table.files()[0].path])
    overwrite(shared_lake, name, data.slice(0, 0))
    return table


def test_published_bytes_equal_the_log(shared_lake: lw.Lake, busy: lw.Table) -> None:
    published = [path.read_bytes() for path in log_files(shared_lake, busy.name)]

    assert len(published) == busy.version + 1
    assert published == _from_the_log(shared_lake, busy.name)


def test_published_bytes_are_the_same_from_another_session(lake: lw.Lake, make_lake: Any) -> None:
    lake.create("t", {"id": "int64"})
    append(lake, "t", {"id": [1]})

    assert _from_the_log(make_lake(actor="somebody else"), "t") == _from_the_log(lake, "t")


def test_files_are_named_for_their_versions(shared_lake: lw.Lake, busy: lw.Table) -> None:
    names = [path.name for path in log_files(shared_lake, busy.name)]

    assert names == [f"{version:020d}.json" for version in range(busy.version + 1)]


def test_commit_info_comes_first_with_a_growing_timestamp(
    shared_lake: lw.Lake, busy: lw.Table
) -> None:
    firsts = [_actions(path)[0] for path in log_files(shared_lake, busy.name)]

    assert {kind for kind, _ in firsts} == {"commitInfo"}
    times = [info["inCommitTimestamp"] for _, info in firsts]
    assert times == sorted(set(times))
    ours = [int(v.timestamp.timestamp() * 1000) for v in busy.versions()]
    assert [abs(a - b) <= 1 for a, b in zip(times, ours, strict=True)] == [True] * len(times)


def test_the_published_files_replay_to_the_state_of_the_log(
    shared_lake: lw.Lake, busy: lw.Table
) -> None:
    live: dict[str, dict[str, Any]] = {}
    for version, path in enumerate(log_files(shared_lake, busy.name)):
        for kind, action in _actions(path):
            if kind == "add":
                assert action["path"] not in live
                live[action["path"]] = action
            elif kind == "remove":
                del live[action["path"]]
        ours = busy.at(version=version).files()
        assert sorted(a["size"] for a in live.values()) == sorted(f.size for f in ours)
        assert len(live) == len(ours)


def test_the_guard_is_published_and_readers_are_let_in(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    protocol = dict(_actions(log_files(shared_lake, name)[0]))["protocol"]

    assert protocol["minWriterVersion"] == 7
    assert "lakewardManaged" in protocol["writerFeatures"]
    assert protocol["minReaderVersion"] == 1


def test_nothing_of_this_machine_is_in_the_paths(shared_lake: lw.Lake, busy: lw.Table) -> None:
    for path in log_files(shared_lake, busy.name):
        for kind, action in _actions(path):
            if kind in ("add", "remove"):
                assert not action["path"].startswith(("/", "file:"))
                assert re.fullmatch(r"[\x21-\x7e]+", action["path"])


def test_no_stray_files_are_left_in_the_log_directory(shared_lake: lw.Lake, busy: lw.Table) -> None:
    found = {p.name for p in (on_disk(busy.location) / "_delta_log").iterdir()}

    assert found == {f"{version:020d}.json" for version in range(busy.version + 1)}


def test_what_was_not_published_is_published_by_the_next_one(lake: lw.Lake, make_lake: Any) -> None:
    table = lake.create("t", {"id": "int64"})
    for number in range(3):
        append(lake, "t", {"id": [number]})
    files = log_files(lake, "t")
    before = [path.read_bytes() for path in files]
    with context_of(lake).database.write() as session:
        session.run(Statement("UPDATE lakeward_head SET published = 0"))
    for path in files[2:]:
        path.unlink()

    make_lake()

    assert [path.read_bytes() for path in log_files(lake, "t")] == before
    assert table.version == 3
