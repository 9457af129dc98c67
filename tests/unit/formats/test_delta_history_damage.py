"""Damaged logs: each a clear error with table and version, never a raw one."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeward.errors import CorruptTable, LakewardError, TableNotFound, UnsupportedFeature
from lakeward.formats.delta.history import (
    read_commit,
    read_history,
)
from lakeward.storage.local import LocalStorage
from tests.support.delta_log import (
    ID_NAME,
    PLAIN,
    UUID,
    Log,
    add,
    forget,
    grow_richly,
    metadata_action,
    remove,
    vector,
)


def test_no_table(tmp_path: Path, storage: LocalStorage) -> None:
    with pytest.raises(TableNotFound, match="There is no Delta table at nowhere"):
        read_history(storage, "nowhere")
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    (tmp_path / "empty" / "_delta_log" / "_last_checkpoint").write_text('{"version": 3}')
    with pytest.raises(TableNotFound):
        read_history(storage, str(tmp_path / "empty"))


DAMAGE: dict[str, tuple[bytes, str]] = {
    "torn": (b'{"add":{"path":"x","partitionValues":{},"si', "line 1 .*not JSON"),
    "not JSON": (b"hello", "line 1 .*not JSON"),
    "not UTF-8": (b'{"add":"\xff"}', "line 1 .*not JSON"),
    "empty": (b"", "empty"),
    "blank": (b"\n \n", "empty"),
    "a list": (b"[1]", "not an action"),
    "a number for an action": (b'{"add":5}', "not an action"),
    "no path": (b'{"add":{"partitionValues":{},"size":1}}', "'path' is missing"),
    "a number for a path": (b'{"add":{"path":5,"size":1}}', "the path 5"),
    "climbing path": (orjson.dumps({"add": add("../../etc/passwd")}), "leads out"),
    "climbing path, encoded": (orjson.dumps({"add": add("a/%2e%2e/%2E./b")}), "leads out"),
    "climbing URI": (orjson.dumps({"add": add("file:///a/../b")}), "leads out"),
    "climbing removal": (orjson.dumps({"remove": remove("../a")}), "leads out"),
    "path of nothing": (orjson.dumps({"add": add("%00")}), "leads out"),
    "path that is no text": (orjson.dumps({"add": add("%FF")}), "utf-8"),
    "negative size": (orjson.dumps({"add": add("a", size=-1)}), "size -1"),
    "size of a text": (orjson.dumps({"add": add("a", size="1")}), "size '1'"),
    "size beyond numbers": (orjson.dumps({"add": add("a", size=2**63)}), "size"),
    "no size": (b'{"add":{"path":"a"}}', "'size' is missing"),
    "partition values of a list": (
        orjson.dumps({"add": add("a", partitionValues=[1])}),
        "damaged",
    ),
    "wrong partition value": (
        orjson.dumps({"add": add("a", partitionValues={"p": "x"})}),
        "'x' is no int64, the type of the partition column p",
    ),
    "partition value of a number": (
        orjson.dumps({"add": add("a", partitionValues={"p": [1]})}),
        "damaged",
    ),
    "vector of nothing": (orjson.dumps({"add": add("a", deletionVector={})}), "storageType"),
    "vector of another kind": (
        orjson.dumps({"add": add("a", deletionVector={**vector("x" * 20), "storageType": "z"})}),
        "deletion vector",
    ),
    "vector that climbs": (
        orjson.dumps({"add": add("a", deletionVector=vector("../x/" + "y" * 20))}),
        "deletion vector",
    ),
    "vector of a text": (orjson.dumps({"add": add("a", deletionVector="x")}), "damaged"),
    "txn of nothing": (b'{"txn":{}}', "'appId' is missing"),
    "txn of a text": (b'{"txn":{"appId":"a","version":"x"}}', "version 'x'"),
    "domain of nothing": (b'{"domainMetadata":{}}', "'domain' is missing"),
    "protocol of nothing": (b'{"protocol":{}}', "'minReaderVersion' is missing"),
    "protocol of texts": (
        b'{"protocol":{"minReaderVersion":"1","minWriterVersion":2}}',
        "minReaderVersion '1'",
    ),
    "features of numbers": (
        b'{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[5]}}',
        "readerFeatures 5",
    ),
    "schema of nothing": (
        orjson.dumps({"metaData": metadata_action((), schemaString="{}")}),
        "schema",
    ),
    "schema that is not JSON": (
        orjson.dumps({"metaData": metadata_action((), schemaString="x")}),
        "schema cannot be understood",
    ),
    "schema of a number": (
        orjson.dumps({"metaData": metadata_action((), schemaString=5)}),
        "schemaString",
    ),
    "column of an unknown type": (
        orjson.dumps({"metaData": metadata_action([("a", "quaternion")])}),
        "schema cannot be understood",
    ),
    "absurd decimal": (
        orjson.dumps({"metaData": metadata_action([("a", "decimal(99,3)")])}),
        "does not exist",
    ),
    "column named by a number": (
        orjson.dumps(
            {
                "metaData": metadata_action(
                    (), schemaString='{"fields":[{"name":5,"type":"long","nullable":true}]}'
                )
            }
        ),
        "column 5",
    ),
    "metadata of a list": (
        orjson.dumps(
            {
                "metaData": metadata_action(
                    (),
                    schemaString='{"fields":[{"name":"a","type":"long","nullable":true,"metadata":[1]}]}',
                )
            }
        ),
        "schema cannot be understood",
    ),
    "two columns of a name": (
        orjson.dumps({"metaData": metadata_action([("a", "long"), ("a", "long")])}),
        "same name",
    ),
    "huge schema": (
        orjson.dumps({"metaData": metadata_action([(f"c{n}", "long") for n in range(10_001)])}),
        "more than 10000 fields",
    ),
    "absent partition column": (
        orjson.dumps({"metaData": metadata_action(ID_NAME, partitionColumns=["nope"])}),
        "partition column 'nope'",
    ),
    "configuration of a list": (
        orjson.dumps({"metaData": metadata_action(ID_NAME, configuration=[1])}),
        "damaged",
    ),
    "created at a text": (
        orjson.dumps({"metaData": metadata_action(ID_NAME, createdTime="x")}),
        "createdTime",
    ),
}


def _nested(depth: int) -> str:
    kind: Any = '"long"'
    for _ in range(depth):
        kind = f'{{"type":"array","elementType":{kind},"containsNull":true}}'
    return f'{{"fields":[{{"name":"a","type":{kind},"nullable":true,"metadata":{{}}}}]}}'


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_told_with_table_and_version(log: Log, storage: LocalStorage, kind: str) -> None:
    data, reason = DAMAGE[kind]
    log.start([("p", "long"), ("v", "long")], partitionColumns=["p"])
    definition, uuid = read_history(storage, "t").definitions[0][1], UUID
    log.version = 1
    log.raw(data)

    with pytest.raises(CorruptTable, match=reason) as caught:
        read_history(storage, "t")
    assert caught.value.facts["version"] == 1
    assert caught.value.facts["location"] == "t"
    assert "The Delta table at t is damaged at version 1" in str(caught.value)
    assert caught.value.hint
    with pytest.raises(CorruptTable, match=reason):
        read_commit(storage, "t", 1, definition, uuid=uuid)


@pytest.mark.parametrize("depth", [70, 300, 900, 5000])
def test_schema_nested_beyond_reason(log: Log, storage: LocalStorage, depth: int) -> None:
    log.start((), schemaString=_nested(depth))
    with pytest.raises(CorruptTable):
        read_history(storage, "t")


def test_first_commit_must_define_the_table(log: Log, storage: LocalStorage) -> None:
    log.commit({"protocol": PLAIN})
    with pytest.raises(CorruptTable, match="no metaData"):
        read_history(storage, "t")
    log.version = -1
    log.commit({"metaData": metadata_action(ID_NAME)})
    with pytest.raises(CorruptTable, match="no protocol"):
        read_history(storage, "t")


@pytest.mark.parametrize("gap", [0, 1, 4])
def test_missing_version_is_named(log: Log, storage: LocalStorage, gap: int) -> None:
    log.start()
    for n in range(5):
        log.commit({"add": add(f"f{n}")})
    log.path(f"{gap:020}.json").unlink()

    with pytest.raises(CorruptTable, match=f"version {gap} is missing") as caught:
        read_history(storage, "t")
    assert caught.value.facts["version"] == gap


def test_absurd_versions(log: Log, storage: LocalStorage) -> None:
    log.start()
    absurd = log.path(f"{10**18}.json".rjust(25, "0"))
    absurd.write_text("{}")
    with pytest.raises(CorruptTable, match="is missing"):
        read_history(storage, "t")
    absurd.unlink()
    log.path("9" * 20 + ".json").write_text("{}")
    with pytest.raises(CorruptTable, match="no table can have"):
        read_history(storage, "t")


@pytest.mark.parametrize(
    "actions",
    [
        [{"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}],
        [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 8}}],
        [
            {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": ["catalogManaged"],
                    "writerFeatures": ["catalogManaged"],
                }
            }
        ],
        [{"metaData": metadata_action([("v", "interval day to second")])}],
    ],
)
def test_what_is_not_damaged_but_unknown_is_refused(
    log: Log, storage: LocalStorage, actions: list[dict[str, Any]]
) -> None:
    log.start()
    log.commit(*actions)
    with pytest.raises(UnsupportedFeature) as caught:
        read_history(storage, "t")
    assert caught.value.hint


JUNK: list[Any] = [
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    "x",
    "../..",
    [],
    {},
    [1],
    {"a": 1},
    "\x00",
    "9" * 500,
]


@given(st.integers(0, 2**32))
@settings(
    max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_no_junk_escapes_as_a_raw_error(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    dice = random.Random(seed)
    root = tmp_path_factory.mktemp("junk")
    log = Log(root / "t")
    grow_richly(log)
    if dice.random() < 0.3:
        log.checkpoint(4)
        forget(log, before=4)
        if dice.random() < 0.5:
            _damage_bytes(log.path(f"{4:020}.checkpoint.parquet"), dice)
    path = dice.choice(sorted(log.path("").glob("*.json")))
    if dice.random() < 0.3:
        _damage_bytes(path, dice)
    else:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        _damage_value(lines, dice)
        path.write_bytes(b"\n".join(json.dumps(line).encode() for line in lines))

    try:
        history = read_history(LocalStorage(root), "t")
    except LakewardError:
        pass
    else:
        for logged in history.files:
            assert ".." not in logged.path.split("/")
            orjson.dumps([logged.path, logged.size, logged.rows, logged.file.extra])
    finally:
        shutil.rmtree(root)


def _damage_bytes(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if dice.random() < 0.3:
        del data[dice.randrange(len(data)) :]
    for _ in range(dice.randrange(4)):
        if data:
            data[dice.randrange(len(data))] = dice.randrange(256)
    path.write_bytes(bytes(data))


def _damage_value(lines: list[Any], dice: random.Random) -> None:
    """Put junk in one random place, also inside texts that are JSON themselves."""
    places: list[tuple[Any, Any]] = []
    stack: list[Any] = [lines]
    while stack:
        node = stack.pop()
        keys = range(len(node)) if isinstance(node, list) else list(node)
        for key in keys:
            places.append((node, key))
            if isinstance(node[key], dict | list):
                stack.append(node[key])
    node, key = dice.choice(places)
    if isinstance(node[key], str) and node[key].startswith("{") and dice.random() < 0.8:
        inner = [json.loads(node[key])]
        _damage_value(inner, dice)
        node[key] = json.dumps(inner[0])
    elif dice.random() < 0.2 and isinstance(node, dict):
        del node[key]
    else:
        node[key] = dice.choice(JUNK)
