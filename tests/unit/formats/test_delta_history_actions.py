"""Logs that no engine at hand writes: what each action means for the history."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.formats.delta.checkpoint import checkpoint_bytes
from lakeward.formats.delta.history import (
    newest_version,
    read_history,
)
from lakeward.formats.delta.publication import commit_bytes, commit_path
from lakeward.model.commit import Commit, CommitInfo
from lakeward.model.definition import Definition
from lakeward.model.file import FileStats
from lakeward.model.schema import Schema
from lakeward.model.types import Field
from lakeward.storage.base import StoredFile
from lakeward.storage.local import LocalStorage
from tests.support.delta_log import (
    ID_NAME,
    UUID,
    Log,
    add,
    check_incrementally,
    column,
    files_at,
    metadata_action,
    own_commits,
    remove,
    spans,
    struct_of,
    vector,
)


def test_deletion_vectors_tell_files_of_one_path_apart(log: Log, storage: LocalStorage) -> None:
    first, second = vector("ab^-aqEH.-t@S}K{vb[*k^"), vector("ab^-aqEH.-t@S}K{vb[*k^", 47)
    stats = '{"numRecords":5,"minValues":{"id":1},"maxValues":{"id":9},"tightBounds":false}'
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    log.start(
        ID_NAME,
        {"add": add("a")},
        protocol={"minReaderVersion": 3, "minWriterVersion": 7, **features},
    )
    log.commit({"remove": remove("a")}, {"add": add("a", deletionVector=first, stats=stats)})
    log.commit(
        {"remove": remove("a", deletionVector=first)}, {"add": add("a", deletionVector=second)}
    )
    log.commit({"remove": remove("a")})  # means another file than the one with a vector
    log.commit({"remove": remove("a", deletionVector=second)})

    history = read_history(storage, "t")

    assert spans(history) == [
        ("a", None, 0, 1),
        ("a", "uab^-aqEH.-t@S}K{vb[*k^@1", 1, 2),
        ("a", "uab^-aqEH.-t@S}K{vb[*k^@47", 2, 4),
    ]
    middle = history.files[1].file
    assert middle.deletion_vector == first
    assert middle.stats == FileStats({1: 1}, {1: 9}, {}, tight=False)
    assert middle.rows == 5
    check_incrementally(storage, log.root)


def test_adding_a_file_again_replaces_it(log: Log, storage: LocalStorage) -> None:
    log.start(ID_NAME, {"add": add("a")}, {"add": add("b")})
    log.commit({"add": add("a", stats='{"numRecords":7}', dataChange=False)})
    log.commit({"add": add("c", size=1)}, {"add": add("d")}, {"add": add("c", size=2)})

    history = read_history(storage, "t")

    assert spans(history) == [
        ("a", None, 0, 1),
        ("b", None, 0, None),
        ("a", None, 1, None),
        ("d", None, 2, None),
        ("c", None, 2, None),
    ]
    assert history.files[2].rows == 7
    assert history.files[4].size == 2
    assert not history.commits[1].info.data_change
    assert history.commits[0].info.data_change
    check_incrementally(storage, log.root)


def test_commits_tell_who_what_and_when(log: Log, storage: LocalStorage) -> None:
    log.start()
    log.commit(
        info={
            "timestamp": 1_700_000_100_000,
            "inCommitTimestamp": 1_700_000_200_000,
            "operation": "MERGE",
            "operationParameters": {"predicate": "x", "matched": [1, {"a": None}]},
            "operationMetrics": {"numFiles": "3"},
            "userName": "ann",
            "engineInfo": "Apache-Spark/4.1",
            "userMetadata": "nightly",
            "txnId": "tx-1",
            "isBlindAppend": True,
            "tags": {"lakeward.members": "3", "lakeward.attempts": "2"},
            "unheard": "of",
        }
    )
    log.commit(info={"timestamp": 5, "operation": None, "operationParameters": "?", "tags": 1})
    log.commit(info={})

    first, second, third, fourth = read_history(storage, "t").commits

    assert first.info.transaction_id == f"adopted-{UUID}-0"
    assert first.info.blind is False
    assert second.timestamp_ms == 1_700_000_200_000
    assert second.info == CommitInfo(
        transaction_id="tx-1",
        operation="MERGE",
        parameters={"predicate": "x", "matched": '[1,{"a":null}]'},
        metrics={"numFiles": "3"},
        actor="ann",
        engine="Apache-Spark/4.1",
        message="nightly",
        members=3,
        attempts=2,
        blind=True,
        adopted=True,
        extra=second.info.extra,
    )
    assert second.info.extra is not None
    assert second.info.extra["unheard"] == "of"
    assert third.timestamp_ms == 1_700_000_200_001
    assert third.info.operation == "UNKNOWN"
    written = log.path(f"{3:020}.json").stat().st_mtime_ns // 1_000_000
    assert fourth.timestamp_ms == written > third.timestamp_ms
    check_incrementally(storage, log.root)


def test_mapped_columns_keep_their_ids_through_rename_and_reuse(
    log: Log, storage: LocalStorage
) -> None:
    def mapped(**names: int) -> str:
        fields = [
            column(
                name,
                "long",
                **{
                    "delta.columnMapping.id": i,
                    "delta.columnMapping.physicalName": f"col-{i}",
                },
            )
            for name, i in names.items()
        ]
        return json.dumps({"type": "struct", "fields": fields})

    def stats(i: int) -> str:
        return json.dumps({"numRecords": 1, "minValues": {f"col-{i}": i}, "maxValues": {}})

    log.start(
        (),
        {"add": add("a", stats=stats(2))},
        protocol={"minReaderVersion": 2, "minWriterVersion": 5},
        schemaString=mapped(a=1, b=2),
    )
    log.commit({"metaData": metadata_action((), schemaString=mapped(c=2, a=1))})
    log.commit(
        {"metaData": metadata_action((), schemaString=mapped(a=3, c=2))},
        {"add": add("b", stats=stats(3))},
    )

    history = read_history(storage, "t")

    ids = [{f.name: f.id for f in d.schema.fields} for _, d in history.definitions]
    assert ids == [{"a": 1, "b": 2}, {"c": 2, "a": 1}, {"a": 3, "c": 2}]
    assert history.definitions[-1][1].schema.last_id == 3
    assert [dict(f.file.stats.minimum) for f in history.files if f.file.stats] == [{2: 2}, {3: 3}]
    check_incrementally(storage, log.root)


def test_nested_fields_keep_their_ids(log: Log, storage: LocalStorage) -> None:
    def array(element: Any) -> dict[str, Any]:
        return {"type": "array", "elementType": element, "containsNull": True}

    def table(value: Any) -> dict[str, Any]:
        return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": False}

    point = [("x", "integer"), ("y", "integer")]
    log.start([("p", struct_of(point)), ("l", array(struct_of(point))), ("m", table("integer"))])
    wider = [("y", "long"), ("z", "integer"), ("x", "integer")]
    log.commit(
        {
            "metaData": metadata_action(
                [
                    ("m", table("long")),
                    ("n", "string"),
                    ("l", array(struct_of(wider))),
                    ("p", struct_of(wider)),
                ]
            )
        }
    )

    (_, before), (_, after) = read_history(storage, "t").definitions

    def ids(definition: Definition) -> dict[str, int]:
        out: dict[str, int] = {}
        stack = [(f.name, f) for f in definition.schema.fields]
        while stack:
            path, field = stack.pop()
            out[path] = field.id
            inner = Schema((field,), 0)
            stack += [(f"{path}.{f.name}", f) for f in list(inner.walk())[1:] if f in _parts(field)]
        return out

    old, new = ids(before), ids(after)
    assert set(old.values()) == set(range(1, 11))
    assert {path: new[path] for path in old} == old
    assert sorted(new[path] for path in new.keys() - old.keys()) == [11, 12, 13]
    assert after.schema.last_id == 13


def _parts(field: Field) -> tuple[Field, ...]:
    kind: Any = field.type
    if hasattr(kind, "fields"):
        return tuple(kind.fields)
    if hasattr(kind, "element"):
        return (kind.element,)
    return (kind.key, kind.value) if hasattr(kind, "key") else ()


def test_widened_columns_are_taken_out_of_the_index(log: Log, storage: LocalStorage) -> None:
    before = [
        ("a", "integer"),
        ("b", "integer"),
        ("c", "date"),
        ("d", "decimal(5,2)"),
        ("e", "float"),
    ]
    after = [
        ("a", "long"),
        ("b", "double"),
        ("c", "timestamp_ntz"),
        ("d", "decimal(9,4)"),
        ("e", "double"),
    ]
    log.start(before)
    log.commit({"metaData": metadata_action(after)})

    (_, first), (_, second) = read_history(storage, "t").definitions

    assert all(f.indexed for f in first.schema.fields)
    assert {f.name: f.indexed for f in second.schema.fields} == {
        "a": True,
        "b": False,
        "c": False,
        "d": False,
        "e": True,
    }
    assert {f.name: f.id for f in second.schema.fields} == {"a": 1, "b": 2, "c": 6, "d": 4, "e": 5}


def test_columns_that_move_up_do_not_enter_the_index(log: Log, storage: LocalStorage) -> None:
    names = [(f"c{n:02}", "long") for n in range(40)]
    log.start(names)
    log.commit({"metaData": metadata_action([*reversed(names), ("new", "long")])})

    (_, first), (_, second) = read_history(storage, "t").definitions

    indexed = {f.name for f in first.schema.indexed}
    assert len(indexed) == 32
    assert {f.name for f in second.schema.indexed} == indexed


def test_only_what_changed_makes_a_new_definition(log: Log, storage: LocalStorage) -> None:
    log.start(configuration={"a": "1", "delta.constraints.ok": "id > 0"}, description="d")
    same = {"a": "1", "delta.constraints.ok": "id > 0"}
    log.commit(
        {"metaData": metadata_action(ID_NAME, configuration=same, description="d", name="x")}
    )
    features = {"writerFeatures": ["b", "a"], "readerFeatures": []}
    log.commit({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
    log.commit({"metaData": metadata_action(ID_NAME, configuration={}, description="d")})

    history = read_history(storage, "t")

    assert [since for since, _ in history.definitions] == [0, 2, 3]
    first, second, third = (d for _, d in history.definitions)
    assert first.properties == {"a": "1"}
    assert first.constraints == {"ok": "id > 0"}
    assert second == replace(
        first,
        protocol={
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": [],
            "writerFeatures": ["a", "b"],
        },
    )
    assert third == replace(second, properties={}, constraints={})
    assert history.name is None
    check_incrementally(storage, log.root)


def test_domains_are_kept_until_removed(log: Log, storage: LocalStorage) -> None:
    def domain(name: str, text: str, *, removed: bool = False) -> dict[str, Any]:
        return {"domainMetadata": {"domain": name, "configuration": text, "removed": removed}}

    log.start(ID_NAME, domain("a", "1"), domain("b", "2"))
    log.commit(domain("a", "", removed=True), domain("b", "3"), domain("c", "4"))

    assert read_history(storage, "t").domains == {"b": "3", "c": "4"}
    check_incrementally(storage, log.root)


def test_unknown_actions_and_change_files_change_nothing(log: Log, storage: LocalStorage) -> None:
    log.start(ID_NAME, {"add": add("a")})
    log.commit(
        {"cdc": add("_change_data/x")},
        {"fromTheFuture": {"path": "b"}},
        {"add": None},
        {"checkpointMetadata": {"version": 1}},
    )
    log.path(f"{0:020}.{1:020}.compacted.json").write_text("ignored")
    log.path(f"{0:020}.crc").write_text("ignored")
    log.path(f".{1:020}.json.tmp").write_text("ignored")
    log.path("_commits").mkdir()

    assert spans(read_history(storage, "t")) == [("a", None, 0, None)]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a%20b.parquet", "a b.parquet"),
        ("p=%25C3%259C/x", "p=%C3%9C/x"),
        ("/data/x%20y", "/data/x y"),
        ("file:///data/x%20y", "/data/x y"),
        ("file:/data/x", "/data/x"),
        ("file://localhost/data/x", "/data/x"),
        ("s3://bucket/a%20b", "s3://bucket/a b"),
        ("file%3Ax", "file:x"),
        ("a..b/..c", "a..b/..c"),
    ],
)
def test_paths_are_decoded(log: Log, storage: LocalStorage, written: str, meant: str) -> None:
    log.start(ID_NAME, {"add": add(written)})
    log.commit({"remove": remove(written)})

    assert spans(read_history(storage, "t")) == [(meant, None, 0, 1)]


@pytest.mark.parametrize(
    "written",
    ["a%28b%29", "p=Ü/x", "a%20b", "a(b)", "file:///x/y", "s3://b/k", "plain/x-1.parquet"],
)
def test_adopted_files_are_removed_under_the_path_that_their_writer_chose(
    tmp_path: Path, log: Log, storage: LocalStorage, written: str
) -> None:
    log.start(ID_NAME, {"add": add(written)}, {"add": add("other")})
    history = read_history(storage, "t")
    head, (file, _) = own_commits()[0], history.files
    info = CommitInfo("tx", "REMOVE", engine="lakeward")
    commit = Commit(1, 1_800_000_000_000, info, removed=(file,))
    storage.put_if_absent(
        commit_path("t", 1), commit_bytes(head, commit, history.definitions[0][1])
    )

    assert [Path(uri).name for uri in DeltaTable(tmp_path / "t").file_uris()] == ["other"]
    assert read_history(storage, "t").files[0].removed == 1


def test_files_may_be_removed_after_their_partition_column(log: Log, storage: LocalStorage) -> None:
    file = add("a", partitionValues={"p": "1"})
    log.start([("p", "long"), ("v", "long")], {"add": file}, partitionColumns=["p"])
    log.commit({"metaData": metadata_action([("v", "long")])}, {"remove": remove("a")})
    history = read_history(storage, "t")
    definition = history.definitions[-1][1]

    data, _ = checkpoint_bytes(own_commits()[0], definition, [], [(history.files[0], 5)], [])

    assert pq.read_table(pa.BufferReader(data))["remove"].null_count == 2


def test_a_log_that_grows_meanwhile_is_read_again(log: Log, storage: LocalStorage) -> None:
    log.start()
    log.commit({"add": add("a")})
    log.commit({"add": add("b")})
    hidden = log.path(f"{1:020}.json").rename(log.root / "hidden")

    class Late(LocalStorage):
        """Shows a commit only after the one that follows it, as a listing may."""

        def listing(self, path: str, *, recursive: bool = False) -> Iterator[StoredFile]:
            yield from list(super().listing(path, recursive=recursive))
            if hidden.exists():
                hidden.rename(log.path(f"{1:020}.json"))

    assert len(read_history(Late(log.root.parent), "t").files) == 2


def test_an_absolute_location_is_fine(log: Log) -> None:
    log.start()
    elsewhere = LocalStorage(Path("/nonexistent"))
    assert read_history(elsewhere, f"{log.root}/").version == 0
    assert newest_version(elsewhere, str(log.root), at_least=-1) == 0


def test_what_the_lake_does_not_know_of_a_file_is_kept(log: Log, storage: LocalStorage) -> None:
    more = {"baseRowId": 5, "defaultRowCommitVersion": 0, "tags": {"ZCUBE": "1"}, "future": [1]}
    log.start(ID_NAME, {"add": add("a", clusteringProvider=None, **more)})

    (file,) = read_history(storage, "t").files

    assert file.file.extra == more


@given(st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_any_log_reads_the_same_at_once_by_commits_and_by_deltalake(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    dice = random.Random(seed)
    base = tmp_path_factory.mktemp("any")
    log = Log(base / "t")
    _write_anything(log, dice)
    storage = LocalStorage(base)

    check_incrementally(storage, log.root)

    history = read_history(storage, "t")
    moments = [c.timestamp_ms for c in history.commits]
    assert moments == sorted(set(moments))
    assert len({(f.added, f.ordinal) for f in history.files}) == len(history.files)
    for version in range(history.version + 1):
        theirs = DeltaTable(log.root, version=version)
        names = sorted(f.path for f in files_at(history, version))
        assert names == sorted(Path(uri).name for uri in theirs.file_uris())
    shutil.rmtree(base)


def _write_anything(log: Log, dice: random.Random) -> None:
    """Commits that a correct writer could make, in any order and with any clock."""
    features = ["deletionVectors"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    columns = list(ID_NAME)
    live: dict[str, dict[str, Any] | None] = {}
    log.start(columns, protocol=protocol)
    for _ in range(dice.randrange(1, 12)):
        actions: list[dict[str, Any]] = []
        touched = dice.sample(sorted(live), dice.randrange(min(len(live), 3) + 1))
        for name in touched:
            old = live.pop(name)
            gone = {} if old is None else {"deletionVector": old}
            choice = dice.random()
            if choice < 0.3:  # rewrite of what is told about the file
                live[name] = old
                again = {
                    **gone,
                    "dataChange": False,
                    "stats": f'{{"numRecords":{dice.randrange(9)}}}',
                }
                actions.append({"add": add(name, **again)})
                continue
            actions.append({"remove": remove(name, dataChange=dice.random() < 0.5, **gone)})
            if choice < 0.6:
                live[name] = vector("x" * 20, dice.randrange(10**6))
                actions.append({"add": add(name, deletionVector=live[name])})
        for _ in range(dice.randrange(3)):
            name = f"f{dice.randrange(10**9)}"
            live[name] = None
            stats = {"numRecords": 3, "minValues": {"id": dice.randrange(99)}, "maxValues": {}}
            actions.append({"add": add(name, stats=json.dumps(stats))})
        if dice.random() < 0.3:
            columns = dice.sample([*columns, (f"c{dice.randrange(99)}", "long")], len(columns) + 1)
            columns = list(dict(columns).items())
            actions.append({"metaData": metadata_action(columns)})
        if dice.random() < 0.3:
            actions.append(
                {"txn": {"appId": f"a{dice.randrange(2)}", "version": dice.randrange(9)}}
            )
        dice.shuffle(actions)
        clock = {"timestamp": 1_700_000_000_000 + dice.randrange(-50, 50), "operation": "ANY"}
        log.commit(*actions, info=clock if dice.random() < 0.9 else {})
