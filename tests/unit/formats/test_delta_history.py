"""Published logs read back: by deltalake's own tables, by handmade ones, and by damaged ones."""

from __future__ import annotations

import base64
import decimal
import json
import random
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Schema as DeltaSchema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeward.errors import CorruptTable, LakewardError, TableNotFound, UnsupportedFeature
from lakeward.formats.delta.checkpoint import checkpoint_bytes
from lakeward.formats.delta.history import (
    ForeignActions,
    TableHistory,
    newest_version,
    read_commit,
    read_history,
)
from lakeward.formats.delta.publication import commit_bytes, commit_path
from lakeward.formats.delta.schema import physical_name
from lakeward.formats.delta.values import partition_text, partition_value, vector_id
from lakeward.model.commit import AppTransaction, Commit, CommitInfo, Head
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE, DataFile, FileStats, LoggedFile
from lakeward.model.names import TableName
from lakeward.model.schema import Schema
from lakeward.model.types import Field, Primitive
from lakeward.model.values import from_neutral, order_key, to_neutral
from lakeward.storage.base import StoredFile
from lakeward.storage.local import LocalStorage

UUID = "0f9f5a5e-7d4c-4f3a-9a53-0b9f5c1f7a11"
PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
ID_NAME = [("id", "long"), ("name", "string")]


# --- tables of deltalake


def _frame(*ids: int, **more: Any) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids], **more})


def _grown(root: Path) -> None:
    write_deltalake(root, _frame(1, 2, 3))
    write_deltalake(root, _frame(4, 5), mode="append")
    DeltaTable(root).delete("id = 2")
    write_deltalake(root, _frame(6), mode="append")
    (
        DeltaTable(root)
        .merge(_frame(5, 9), "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    DeltaTable(root).optimize.compact()
    write_deltalake(root, _frame(7, 8), mode="overwrite")


def _partitioned(root: Path) -> None:
    moments = [datetime(2020, 1, 1, 1, 1, 1, 123456, UTC), None, datetime(1950, 1, 1, tzinfo=UTC)]
    data = pa.table(
        {
            "v": [1.5, 2.5, None],
            "s": ["a/b c", None, "Ü %=:'\"é"],
            "d": pa.array([date(2020, 2, 29), date(1960, 1, 1), None], pa.date32()),
            "ts": pa.array(moments, pa.timestamp("us", "UTC")),
            "dec": pa.array([decimal.Decimal("1.20"), None, decimal.Decimal("9.99")]),
            "b": [True, None, False],
            "i": pa.array([1, None, -3], pa.int32()),
        }
    )
    keys = ["s", "d", "ts", "dec", "b", "i"]
    write_deltalake(root, data, partition_by=keys)
    write_deltalake(root, data.slice(0, 1), mode="append")
    write_deltalake(root, data.slice(0, 1), mode="overwrite", predicate="i = 1")
    DeltaTable(root).delete("b = false")


def _typed(root: Path) -> None:
    data = pa.table(
        {
            "i8": pa.array([1, -5, None], pa.int8()),
            "f": pa.array([0.1, -2.5, None], pa.float32()),
            "g": [1e300, float("nan"), -1.0],
            "dec": pa.array([decimal.Decimal("12.30"), None, None], pa.decimal128(12, 2)),
            "big": pa.array(
                [decimal.Decimal("12345678901234567890123.45"), None, None], pa.decimal128(30, 2)
            ),
            "s": ["x" * 300, "ü", None],
            "b": [True, False, None],
            "raw": [b"\xff", b"", None],
            "d": pa.array([date(1, 1, 1), date(9999, 12, 31), None], pa.date32()),
            "ts": pa.array([-1, 1_700_000_000_123_456, None], pa.timestamp("us", "UTC")),
            "ntz": pa.array([-1, 1_700_000_000_123_456, None], pa.timestamp("us")),
            "st": [{"a": 1, "l": [1]}, None, {"a": None, "l": []}],
            "l": [[1, 2], None, []],
            "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
            "void": pa.array([None, None, None], pa.int64()),
        }
    )
    write_deltalake(root, data)
    write_deltalake(root, data.slice(1, 1), mode="append")


def _evolving(root: Path) -> None:
    write_deltalake(root, _frame(1))
    write_deltalake(root, _frame(2, extra=[1.5]), mode="append", schema_mode="merge")
    write_deltalake(
        root,
        pa.table({"name": ["x"], "extra": ["text now"], "id": pa.array([3], pa.int64())}),
        mode="overwrite",
        schema_mode="overwrite",
    )
    DeltaTable(root).alter.add_constraint({"positive": "id > 0"})
    DeltaTable(root).alter.set_table_properties({"delta.appendOnly": "false"})


def _checkpointed(root: Path) -> None:
    _grown(root)
    DeltaTable(root).create_checkpoint()
    write_deltalake(root, _frame(10), mode="append")


def _cleaned(root: Path) -> None:
    configuration = {"delta.logRetentionDuration": "interval 0 seconds"}
    write_deltalake(root, _frame(1), configuration=configuration)
    for i in range(2, 5):
        write_deltalake(root, _frame(i), mode="append")
    DeltaTable(root).delete("id = 1")
    DeltaTable(root).create_checkpoint()
    write_deltalake(root, _frame(10), mode="append")
    table = DeltaTable(root)
    table.create_checkpoint()
    table.cleanup_metadata()
    write_deltalake(root, _frame(11), mode="append")


def _mapped(root: Path) -> None:
    data = _frame(1, 2, part=["p/1", None])
    DeltaTable.create(
        root,
        DeltaSchema.from_arrow(data.schema),
        partition_by=["part"],
        configuration={"delta.columnMapping.mode": "name"},
        name="sales.orders",
        description="what was sold",
    )
    write_deltalake(root, data, mode="append")
    DeltaTable(root).delete("id = 1")


def _applications(root: Path) -> None:
    for number in range(3):
        told = CommitProperties(
            custom_metadata={"userName": "ann", "job": "nightly"},
            app_transactions=[Transaction("loader", number, 1_700_000_000_000 + number)],
        )
        write_deltalake(root, _frame(number), mode="append", commit_properties=told)


TABLES: dict[str, Callable[[Path], None]] = {
    make.__name__.lstrip("_"): make
    for make in (
        _grown,
        _partitioned,
        _typed,
        _evolving,
        _checkpointed,
        _cleaned,
        _mapped,
        _applications,
    )
}


@pytest.fixture(params=TABLES)
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    root = tmp_path / "t"
    TABLES[request.param](root)
    return root


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def _at(history: TableHistory, version: int) -> list[LoggedFile]:
    return [f for f in history.files if f.added <= version < f.removed]


def _definition_at(history: TableHistory, version: int) -> Definition:
    return [d for since, d in history.definitions if since <= version][-1]


def test_history_agrees_with_deltalake_at_every_version(real: Path, storage: LocalStorage) -> None:
    history = read_history(storage, "t")

    newest = DeltaTable(real)
    assert history.version == newest.version()
    assert history.uuid == str(newest.metadata().id)
    assert history.name == newest.metadata().name
    assert [c.version for c in history.commits] == list(
        range(history.first_version, history.version + 1)
    )
    for version in range(history.first_version, history.version + 1):
        theirs = DeltaTable(real, version=version)
        definition = _definition_at(history, version)
        _same_definition(definition, theirs)
        _same_files(_at(history, version), definition, theirs)


def _same_definition(ours: Definition, theirs: DeltaTable) -> None:
    arrow = pa.schema(theirs.schema().to_arrow())
    assert ours.schema.names == arrow.names
    assert [str(f.type) for f in ours.schema.to_arrow()] == [
        str(f.type).replace("large_", "damaged").replace("_view", "damaged") for f in arrow
    ]
    told, protocol = theirs.metadata(), theirs.protocol()
    assert ours.partition_names == told.partition_columns
    assert ours.comment == told.description
    assert ours.created_ms == told.created_time
    constraints = {f"delta.constraints.{k}": v for k, v in ours.constraints.items()}
    assert {**ours.properties, **constraints} == told.configuration
    assert ours.protocol["minReaderVersion"] == protocol.min_reader_version
    assert ours.protocol["minWriterVersion"] == protocol.min_writer_version
    assert ours.protocol.get("readerFeatures") == _sorted(protocol.reader_features)
    assert ours.protocol.get("writerFeatures") == _sorted(protocol.writer_features)


def _sorted(features: list[str] | None) -> list[str] | None:
    return None if features is None else sorted(features)


def _same_files(ours: list[LoggedFile], definition: Definition, theirs: DeltaTable) -> None:
    prefix = theirs.table_uri.removeprefix("file://")
    assert sorted(f.path for f in ours) == sorted(
        u.removeprefix("file://").removeprefix(prefix).lstrip("/") for u in theirs.file_uris()
    )
    rows = pa.table(theirs.get_add_actions(flatten=True)).to_pylist()
    by_name = {row["path"].rpartition("/")[2]: row for row in rows}
    for logged in ours:
        file, row = logged.file, by_name[logged.path.rpartition("/")[2]]
        assert (file.size, file.modified_ms) == (row["size_bytes"], row["modification_time"])
        assert file.rows == row["num_records"]
        for field_id, value in file.partition.items():
            field = definition.schema.by_id[field_id]
            assert value == to_neutral(field.type, row[f"partition.{field.name}"])
        for field in definition.schema.fields:
            _same_bounds(field, file, row)


def _same_bounds(field: Field, file: DataFile, row: dict[str, Any]) -> None:
    name = physical_name(field)
    stats = file.stats or FileStats()
    assert stats.nulls.get(field.id) == row.get(f"null_count.{name}")
    low: Any = row.get(f"min.{name}")
    high: Any = row.get(f"max.{name}")
    if low is None and str(field.type) == "decimal(30,2)":
        return  # deltalake cannot read back what it wrote of a wide decimal
    if low is None or str(field.type) in ("boolean", "binary"):
        assert field.id not in stats.minimum
        assert field.id not in stats.maximum
        return
    lowest = from_neutral(field.type, stats.minimum[field.id])
    highest = from_neutral(field.type, stats.maximum[field.id])
    if str(field.type).startswith("timestamp"):
        assert lowest == low
        assert highest == high + timedelta(microseconds=999)
    elif isinstance(low, decimal.Decimal):
        assert lowest <= low
        assert high <= highest
        assert highest - lowest <= (high - low) + abs(high) * decimal.Decimal("1e-14")
    else:
        assert (lowest, highest) == (low, high)


def test_bounds_of_deltalake_hold_every_value(tmp_path: Path, storage: LocalStorage) -> None:
    numbers = random.Random(7)
    kinds: dict[str, Callable[[], Any]] = {
        "dec": lambda: decimal.Decimal(numbers.randrange(-(10**30), 10**30)).scaleb(-2),
        "fine": lambda: decimal.Decimal(numbers.randrange(10**17, 10**18)).scaleb(-9),
        "ts": lambda: numbers.randrange(-(10**15), 10**15),
    }
    arrow = {
        "dec": pa.decimal128(32, 2),
        "fine": pa.decimal128(20, 9),
        "ts": pa.timestamp("us", "UTC"),
    }
    for _ in range(30):
        data = pa.table({n: pa.array([make(), make()], arrow[n]) for n, make in kinds.items()})
        write_deltalake(tmp_path / "t", data, mode="append")

    history = read_history(storage, "t")

    schema = history.definitions[-1][1].schema
    for logged in history.files:
        rows = pq.read_table(tmp_path / "t" / logged.path)
        for field in schema.fields:
            assert logged.file.stats is not None
            low = from_neutral(field.type, logged.file.stats.minimum[field.id])
            high = from_neutral(field.type, logged.file.stats.maximum[field.id])
            assert all(low <= v <= high for v in rows[field.name].to_pylist())


def test_partition_values_survive_special_characters(tmp_path: Path, storage: LocalStorage) -> None:
    _partitioned(tmp_path / "t")
    history = read_history(storage, "t")

    schema = history.definitions[0][1].schema
    text = schema.field("s").id
    assert {f.partition[text] for f in history.files} == {"a/b c", None, "Ü %=:'\"é"}
    assert all((tmp_path / "t" / f.path).exists() for f in history.files if f.removed == LIVE)


def test_ids_stay_with_their_columns(tmp_path: Path, storage: LocalStorage) -> None:
    _evolving(tmp_path / "t")
    history = read_history(storage, "t")

    ids = [(since, {f.name: f.id for f in d.schema.fields}) for since, d in history.definitions]
    assert ids[0] == (0, {"id": 1, "name": 2})
    assert ids[1] == (1, {"id": 1, "name": 2, "extra": 3})
    # A number that became a text is another column; moving one is not.
    assert ids[2] == (2, {"name": 2, "extra": 4, "id": 1})
    constrained = next(d for since, d in history.definitions if since == 3)
    assert constrained.constraints == {"positive": "id > 0"}
    assert "delta.constraints.positive" not in constrained.properties
    assert history.definitions[-1][1].properties == {"delta.appendOnly": "false"}


def test_cleaned_log_starts_at_its_oldest_usable_checkpoint(
    tmp_path: Path, storage: LocalStorage
) -> None:
    _cleaned(tmp_path / "t")
    assert not (tmp_path / "t/_delta_log" / f"{0:020}.json").exists()

    history = read_history(storage, "t")

    assert 0 < history.first_version < history.version == 6
    at_start = [f for f in history.files if f.added == history.first_version]
    assert [f.ordinal for f in at_start] == list(range(len(at_start)))
    assert history.commits[0].timestamp_ms < history.commits[1].timestamp_ms


def test_application_transactions_carry_their_version(
    tmp_path: Path, storage: LocalStorage
) -> None:
    _applications(tmp_path / "t")
    history = read_history(storage, "t")

    assert history.app_transactions == [
        (n, AppTransaction("loader", n, 1_700_000_000_000 + n)) for n in range(3)
    ]
    assert history.commits[2].app_transactions == (AppTransaction("loader", 2, 1_700_000_000_002),)
    assert history.commits[0].info.actor == "ann"
    assert history.commits[0].info.extra is not None
    assert history.commits[0].info.extra["job"] == "nightly"

    DeltaTable(tmp_path / "t").create_checkpoint()
    for commit in (tmp_path / "t/_delta_log").glob("*.json"):
        commit.unlink()
    restored = read_history(storage, "t")
    assert restored.app_transactions == [(2, AppTransaction("loader", 2, 1_700_000_000_002))]


# --- at once, or commit by commit


def test_reading_commit_by_commit_gives_the_same_history(real: Path, storage: LocalStorage) -> None:
    _same_incrementally(storage, real)


def _same_incrementally(storage: LocalStorage, root: Path) -> None:
    whole = read_history(storage, root.name)
    grown = _prefix(storage, root, whole.first_version)
    for version in range(whole.first_version + 1, whole.version + 1):
        found = read_commit(
            storage,
            root.name,
            version,
            grown.definitions[-1][1],
            uuid=grown.uuid,
            after_ms=grown.commits[-1].timestamp_ms,
        )
        assert found is not None
        grown = _grow(grown, found)
    assert grown == whole
    definition = whole.definitions[-1][1]
    assert read_commit(storage, root.name, whole.version + 1, definition, uuid="") is None


def _prefix(storage: LocalStorage, root: Path, version: int) -> TableHistory:
    """The history of a copy of the log that ends with this version."""
    copy = root.with_name(f"{root.name}-prefix")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root / "_delta_log", copy / "_delta_log")
    for file in (copy / "_delta_log").glob("*"):
        if file.is_file() and file.name[:20].isdigit() and int(file.name[:20]) > version:
            file.unlink()
    return read_history(storage, copy.name)


def _grow(history: TableHistory, found: ForeignActions) -> TableHistory:
    ended = {*found.removed, *((f.path, vector_id(f.deletion_vector)) for f in found.added)}
    files = [
        replace(f, removed=found.version)
        if f.removed == LIVE and (f.path, vector_id(f.file.deletion_vector)) in ended
        else f
        for f in history.files
    ]
    files += [LoggedFile(f, found.version, n) for n, f in enumerate(found.added)]
    commit = Commit(
        found.version, found.timestamp_ms, found.info, app_transactions=found.app_transactions
    )
    definition = [(found.version, found.definition)] if found.definition else []
    domains = {**history.domains, **found.domains}
    return replace(
        history,
        uuid=found.uuid or history.uuid,
        name=found.name if found.uuid else history.name,
        version=found.version,
        definitions=history.definitions + definition,
        commits=[*history.commits, commit],
        files=files,
        app_transactions=[
            *history.app_transactions,
            *((found.version, a) for a in found.app_transactions),
        ],
        domains={k: v for k, v in domains.items() if v is not None},
    )


def test_newest_version_is_found_by_probing_listing_and_checkpoints(
    tmp_path: Path, storage: LocalStorage
) -> None:
    log = Log(tmp_path / "t").start()
    for n in range(1, 60):
        log.commit({"add": _add(f"f{n}")})
    assert newest_version(storage, "t", at_least=59) == 59
    assert newest_version(storage, "t", at_least=57) == 59
    assert newest_version(storage, "t/", at_least=3) == 59
    assert newest_version(storage, "t", at_least=70) == 70

    log.checkpoint(50)
    for n in range(50):
        log.path(f"{n:020}.json").unlink()
    assert newest_version(storage, "t", at_least=10) == 10
    log.path("_last_checkpoint").write_text('{"version": 50}')
    assert newest_version(storage, "t", at_least=10) == 59
    for junk in ("", "[]", "{}", '{"version": "x"}', '{"version": null}'):
        log.path("_last_checkpoint").write_text(junk)
        assert newest_version(storage, "t", at_least=10) == 10


# --- handmade logs


class Log:
    """A `_delta_log` written line by line."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.version = -1
        self.path("").mkdir(parents=True)

    def path(self, name: str) -> Path:
        return self.root / "_delta_log" / name

    def start(
        self,
        columns: Iterable[tuple[str, Any]] = ID_NAME,
        *more: dict[str, Any],
        protocol: dict[str, Any] | None = None,
        **metadata: Any,
    ) -> Log:
        return self.commit(
            {"protocol": protocol or PLAIN}, {"metaData": _metadata(columns, **metadata)}, *more
        )

    def commit(self, *actions: dict[str, Any], info: dict[str, Any] | None = None) -> Log:
        self.version += 1
        told = {"timestamp": 1_700_000_000_000 + self.version, "operation": "WRITE"}
        lines = [{"commitInfo": told if info is None else info}, *actions]
        return self.raw(b"".join(orjson.dumps(line) + b"\n" for line in lines))

    def raw(self, data: bytes) -> Log:
        self.path(f"{self.version:020}.json").write_bytes(data)
        return self

    def checkpoint(self, version: int) -> None:
        table = DeltaTable(self.root, version=version)
        table.create_checkpoint()
        self.path("_last_checkpoint").unlink(missing_ok=True)


def _metadata(columns: Iterable[tuple[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "id": UUID,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(_struct(columns)),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1_600_000_000_000,
        **more,
    }


def _struct(columns: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {"type": "struct", "fields": [_column(*c) for c in columns]}


def _column(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def _add(path: str, **more: Any) -> dict[str, Any]:
    return {
        "path": path,
        "partitionValues": {},
        "size": 10,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        **more,
    }


def _remove(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "deletionTimestamp": 1, "dataChange": True, **more}


def _vector(place: str, offset: int | None = 1) -> dict[str, Any]:
    out = {"storageType": "u", "pathOrInlineDv": place, "sizeInBytes": 40, "cardinality": 2}
    return out if offset is None else {**out, "offset": offset}


def _spans(history: TableHistory) -> list[tuple[str, str | None, int, int | None]]:
    return [
        (
            f.path,
            vector_id(f.file.deletion_vector),
            f.added,
            None if f.removed == LIVE else f.removed,
        )
        for f in history.files
    ]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "t")


def test_deletion_vectors_tell_files_of_one_path_apart(log: Log, storage: LocalStorage) -> None:
    first, second = _vector("ab^-aqEH.-t@S}K{vb[*k^"), _vector("ab^-aqEH.-t@S}K{vb[*k^", 47)
    stats = '{"numRecords":5,"minValues":{"id":1},"maxValues":{"id":9},"tightBounds":false}'
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    log.start(
        ID_NAME,
        {"add": _add("a")},
        protocol={"minReaderVersion": 3, "minWriterVersion": 7, **features},
    )
    log.commit({"remove": _remove("a")}, {"add": _add("a", deletionVector=first, stats=stats)})
    log.commit(
        {"remove": _remove("a", deletionVector=first)}, {"add": _add("a", deletionVector=second)}
    )
    log.commit({"remove": _remove("a")})  # means another file than the one with a vector
    log.commit({"remove": _remove("a", deletionVector=second)})

    history = read_history(storage, "t")

    assert _spans(history) == [
        ("a", None, 0, 1),
        ("a", "uab^-aqEH.-t@S}K{vb[*k^@1", 1, 2),
        ("a", "uab^-aqEH.-t@S}K{vb[*k^@47", 2, 4),
    ]
    middle = history.files[1].file
    assert middle.deletion_vector == first
    assert middle.stats == FileStats({1: 1}, {1: 9}, {}, tight=False)
    assert middle.rows == 5
    _same_incrementally(storage, log.root)


def test_adding_a_file_again_replaces_it(log: Log, storage: LocalStorage) -> None:
    log.start(ID_NAME, {"add": _add("a")}, {"add": _add("b")})
    log.commit({"add": _add("a", stats='{"numRecords":7}', dataChange=False)})
    log.commit({"add": _add("c", size=1)}, {"add": _add("d")}, {"add": _add("c", size=2)})

    history = read_history(storage, "t")

    assert _spans(history) == [
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
    _same_incrementally(storage, log.root)


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
    _same_incrementally(storage, log.root)


def test_mapped_columns_keep_their_ids_through_rename_and_reuse(
    log: Log, storage: LocalStorage
) -> None:
    def mapped(**names: int) -> str:
        fields = [
            _column(
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

    log.start((), {"add": _add("a", stats=stats(2))}, schemaString=mapped(a=1, b=2))
    log.commit({"metaData": _metadata((), schemaString=mapped(c=2, a=1))})
    log.commit(
        {"metaData": _metadata((), schemaString=mapped(a=3, c=2))},
        {"add": _add("b", stats=stats(3))},
    )

    history = read_history(storage, "t")

    ids = [{f.name: f.id for f in d.schema.fields} for _, d in history.definitions]
    assert ids == [{"a": 1, "b": 2}, {"c": 2, "a": 1}, {"a": 3, "c": 2}]
    assert history.definitions[-1][1].schema.last_id == 3
    assert [dict(f.file.stats.minimum) for f in history.files if f.file.stats] == [{2: 2}, {3: 3}]
    _same_incrementally(storage, log.root)


def test_nested_fields_keep_their_ids(log: Log, storage: LocalStorage) -> None:
    def array(element: Any) -> dict[str, Any]:
        return {"type": "array", "elementType": element, "containsNull": True}

    def table(value: Any) -> dict[str, Any]:
        return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": False}

    point = [("x", "integer"), ("y", "integer")]
    log.start([("p", _struct(point)), ("l", array(_struct(point))), ("m", table("integer"))])
    wider = [("y", "long"), ("z", "integer"), ("x", "integer")]
    log.commit(
        {
            "metaData": _metadata(
                [
                    ("m", table("long")),
                    ("n", "string"),
                    ("l", array(_struct(wider))),
                    ("p", _struct(wider)),
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
    log.commit({"metaData": _metadata(after)})

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
    log.commit({"metaData": _metadata([*reversed(names), ("new", "long")])})

    (_, first), (_, second) = read_history(storage, "t").definitions

    indexed = {f.name for f in first.schema.indexed}
    assert len(indexed) == 32
    assert {f.name for f in second.schema.indexed} == indexed


def test_only_what_changed_makes_a_new_definition(log: Log, storage: LocalStorage) -> None:
    log.start(configuration={"a": "1", "delta.constraints.ok": "id > 0"}, description="d")
    same = {"a": "1", "delta.constraints.ok": "id > 0"}
    log.commit({"metaData": _metadata(ID_NAME, configuration=same, description="d", name="x")})
    features = {"writerFeatures": ["b", "a"], "readerFeatures": []}
    log.commit({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
    log.commit({"metaData": _metadata(ID_NAME, configuration={}, description="d")})

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
    _same_incrementally(storage, log.root)


def test_domains_are_kept_until_removed(log: Log, storage: LocalStorage) -> None:
    def domain(name: str, text: str, *, removed: bool = False) -> dict[str, Any]:
        return {"domainMetadata": {"domain": name, "configuration": text, "removed": removed}}

    log.start(ID_NAME, domain("a", "1"), domain("b", "2"))
    log.commit(domain("a", "", removed=True), domain("b", "3"), domain("c", "4"))

    assert read_history(storage, "t").domains == {"b": "3", "c": "4"}
    _same_incrementally(storage, log.root)


def test_unknown_actions_and_change_files_change_nothing(log: Log, storage: LocalStorage) -> None:
    log.start(ID_NAME, {"add": _add("a")})
    log.commit(
        {"cdc": _add("_change_data/x")},
        {"fromTheFuture": {"path": "b"}},
        {"add": None},
        {"checkpointMetadata": {"version": 1}},
    )
    log.path(f"{0:020}.{1:020}.compacted.json").write_text("ignored")
    log.path(f"{0:020}.crc").write_text("ignored")
    log.path(f".{1:020}.json.tmp").write_text("ignored")
    log.path("_commits").mkdir()

    assert _spans(read_history(storage, "t")) == [("a", None, 0, None)]


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
    log.start(ID_NAME, {"add": _add(written)})
    log.commit({"remove": _remove(written)})

    assert _spans(read_history(storage, "t")) == [(meant, None, 0, 1)]


@pytest.mark.parametrize(
    "written",
    ["a%28b%29", "p=Ü/x", "a%20b", "a(b)", "file:///x/y", "s3://b/k", "plain/x-1.parquet"],
)
def test_adopted_files_are_removed_under_the_path_that_their_writer_chose(
    tmp_path: Path, log: Log, storage: LocalStorage, written: str
) -> None:
    log.start(ID_NAME, {"add": _add(written)}, {"add": _add("other")})
    history = read_history(storage, "t")
    head, (file, _) = _own()[0], history.files
    info = CommitInfo("tx", "REMOVE", engine="lakeward")
    commit = Commit(1, 1_800_000_000_000, info, removed=(file,))
    storage.put_if_absent(
        commit_path("t", 1), commit_bytes(head, commit, history.definitions[0][1])
    )

    assert [Path(uri).name for uri in DeltaTable(tmp_path / "t").file_uris()] == ["other"]
    assert read_history(storage, "t").files[0].removed == 1


def test_files_may_be_removed_after_their_partition_column(log: Log, storage: LocalStorage) -> None:
    add = _add("a", partitionValues={"p": "1"})
    log.start([("p", "long"), ("v", "long")], {"add": add}, partitionColumns=["p"])
    log.commit({"metaData": _metadata([("v", "long")])}, {"remove": _remove("a")})
    history = read_history(storage, "t")
    definition = history.definitions[-1][1]

    data, _ = checkpoint_bytes(_own()[0], definition, [], [(history.files[0], 5)], [])

    assert pq.read_table(pa.BufferReader(data))["remove"].null_count == 2


def test_a_log_that_grows_meanwhile_is_read_again(log: Log, storage: LocalStorage) -> None:
    log.start()
    log.commit({"add": _add("a")})
    log.commit({"add": _add("b")})
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
    log.start(ID_NAME, {"add": _add("a", clusteringProvider=None, **more)})

    (file,) = read_history(storage, "t").files

    assert file.file.extra == more


# --- values


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("long", "-5", -5),
        ("boolean", "TRUE", True),
        ("date", "2020-02-29", date(2020, 2, 29)),
        ("timestamp", "2020-01-01 00:00:00", datetime(2020, 1, 1, tzinfo=UTC)),
        ("timestamp", "2020-01-01 00:00:00.5", datetime(2020, 1, 1, 0, 0, 0, 500_000, UTC)),
        ("timestamp", "2020-01-01T00:00:00.000001Z", datetime(2020, 1, 1, 0, 0, 0, 1, UTC)),
        ("timestamp", "2020-01-01T02:00:00+02:00", datetime(2020, 1, 1, tzinfo=UTC)),
        ("timestamp_ntz", "2020-01-01 00:00:00.000001", datetime(2020, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001
        ("decimal(38,2)", "123456789012345678901234567890123456.7", "1" * 0),
        ("double", "1.5", 1.5),
        ("string", "x", "x"),
        ("string", "", None),
        ("string", None, None),
        ("long", "", None),
        ("binary", "\u00e9", "\u00e9".encode()),
    ],
)
def test_partition_texts(
    log: Log, storage: LocalStorage, kind: str, text: str | None, value: Any
) -> None:
    add = _add("a", partitionValues={"p": text})
    log.start([("p", kind), ("v", "long")], {"add": add}, partitionColumns=["p"])

    history = read_history(storage, "t")

    field = history.definitions[0][1].schema.field("p")
    found = history.files[0].partition[field.id]
    if kind == "decimal(38,2)":
        assert found == "123456789012345678901234567890123456.70"
    else:
        assert from_neutral(field.type, found) == value
    again = partition_value(field, partition_text(field, found))
    assert again == found


def test_a_missing_partition_value_is_null(log: Log, storage: LocalStorage) -> None:
    log.start([("p", "long"), ("v", "long")], {"add": _add("a")}, partitionColumns=["p"])

    assert read_history(storage, "t").files[0].partition == {1: None}


@pytest.mark.parametrize(
    ("kind", "low", "high", "lowest", "highest"),
    [
        ("long", 1, 2, 1, 2),
        ("long", 1.5, "2", None, None),
        ("long", 10**30, True, None, None),
        ("integer", -5, 5, -5, 5),
        ("float", 0.1, 0.1, struct.unpack("f", struct.pack("f", 0.1))[0], None),
        ("float", 1e300, "Infinity", None, None),
        ("double", "-Infinity", "NaN", None, None),
        ("double", 1, 2, 1.0, 2.0),
        ("string", "a", "b\U0010ffff", "a", "b\U0010ffff"),
        ("string", 1, None, None, None),
        ("boolean", False, True, None, None),
        ("binary", "a", "b", None, None),
        ("date", "1969-12-31", "2020-01-01", -1, 18262),
        ("date", "+10000-01-01", 5, None, None),
        ("timestamp", "1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.002Z", 1000, 2999),
        ("timestamp", "1970-01-01T01:00:00+01:00", "1970-01-01T00:00:00.000001Z", 0, 1),
        ("timestamp", 5, "soon", None, None),
        ("timestamp_ntz", "1970-01-01 00:00:00.001", "1970-01-01T00:00:00", 1000, 999),
        ("decimal(5,2)", 1.2, 3, "1.20", "3.00"),
        ("decimal(5,2)", 0.30000000000000004, 0.29999999999999999, "0.30", "0.30"),
        ("decimal(5,2)", "1.2", [], "1.20", None),
        ("decimal(38,0)", 10**37 + 1, 10**37 + 1, str(10**37 + 1), str(10**37 + 1)),
    ],
)
def test_statistics_of_strangers_become_outer_bounds(
    log: Log, storage: LocalStorage, kind: str, low: Any, high: Any, lowest: Any, highest: Any
) -> None:
    stats = {
        "numRecords": 3,
        "minValues": {"v": low},
        "maxValues": {"v": high},
        "nullCount": {"v": 1},
    }
    log.start([("v", kind)], {"add": _add("a", stats=json.dumps(stats))})

    (file,) = read_history(storage, "t").files

    assert file.rows == 3
    assert file.file.stats is not None
    assert file.file.stats.nulls == {1: 1}
    assert file.file.stats.minimum.get(1) == lowest
    if kind != "float":
        assert file.file.stats.maximum.get(1) == highest


def test_decimals_that_went_through_floating_point_are_widened(
    log: Log, storage: LocalStorage
) -> None:
    true = decimal.Decimal("99999999999999999999.99")
    stats = (
        f'{{"numRecords":1,"minValues":{{"v":{float(true)}}},"maxValues":{{"v":{float(true)}}}}}'
    )
    log.start([("v", "decimal(25,2)")], {"add": _add("a", stats=stats)})

    (file,) = read_history(storage, "t").files

    assert file.file.stats is not None
    low, high = (
        decimal.Decimal(str(b[1])) for b in (file.file.stats.minimum, file.file.stats.maximum)
    )
    assert low <= true <= high
    assert high - low < 200_000


@pytest.mark.parametrize(
    "stats",
    [
        "",
        "x",
        "[]",
        "null",
        "[" * 5000,
        '{"minValues":{"id":1}',
        '"text"',
        '{"numRecords":NaN}',
        5,
        {},
    ],
)
def test_statistics_that_mean_nothing_are_left_out(
    log: Log, storage: LocalStorage, stats: Any
) -> None:
    log.start(ID_NAME, {"add": _add("a", stats=stats)})

    (file,) = read_history(storage, "t").files

    assert file.rows is None
    assert file.file.stats is None


@pytest.mark.parametrize(
    "stats",
    [
        {"numRecords": -1, "minValues": [], "maxValues": "x", "nullCount": 5},
        {
            "numRecords": "3",
            "minValues": {"id": {"a": 1}},
            "nullCount": {"id": -1, "name": {"a": 1}},
        },
        {"minValues": {"unknown": 1, "id": None, "name": "\ud800"}},
    ],
)
@pytest.mark.parametrize("exactly", [False, True])
def test_bounds_that_mean_nothing_are_left_out(
    log: Log, storage: LocalStorage, stats: Any, exactly: bool
) -> None:
    columns = [*ID_NAME, ("d", "decimal(5,2)")] if exactly else ID_NAME
    log.start(columns, {"add": _add("a", stats=json.dumps(stats))})

    (file,) = read_history(storage, "t").files

    assert file.rows is None
    assert (file.file.stats or FileStats()) == FileStats()


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=4, min_value=-(10**30), max_value=10**30
    )
)
@settings(max_examples=300)
def test_any_decimal_lies_between_bounds_read_from_its_float(value: decimal.Decimal) -> None:
    from lakeward.formats.delta.statistics import StatsReader
    from lakeward.model.types import Decimal

    kind = Decimal(38, 4)
    reader = StatsReader(Schema((Field(1, "v", kind),), 1))
    for text, exact in ((repr(float(value)), False), (str(value), False), (str(value), True)):
        source = f'{{"minValues":{{"v":{text}}},"maxValues":{{"v":{text}}}}}'
        _, stats = reader.text(source, exact=exact)
        assert stats is not None
        low, high = stats.minimum[1], stats.maximum[1]
        assert decimal.Decimal(str(low)) <= value <= decimal.Decimal(str(high))
        assert order_key(kind, low) <= order_key(kind, str(value)) <= order_key(kind, high)
        if exact:
            assert low == high == str(value)


# --- checkpoints


def _big(log: Log, *, sidecars: bool = False) -> TableHistory:
    """A log with some of everything that a checkpoint must carry."""
    columns = [("id", "long"), ("day", "date"), ("at", "timestamp"), ("d", "decimal(9,2)")]
    features = ["deletionVectors", "v2Checkpoint"] if sidecars else ["deletionVectors"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": [*features, "domainMetadata"],
    }
    log.start(columns, protocol=protocol, partitionColumns=["day"], name="n", description="d")
    for n in range(1, 6):
        stats = {
            "numRecords": n,
            "minValues": {"id": n, "at": f"2020-01-0{n}T00:00:00.000Z", "d": n + 0.25},
            "maxValues": {"id": n * 2, "at": f"2020-01-0{n}T00:00:00.001Z", "d": n + 0.5},
            "nullCount": {"id": 0, "at": 0, "d": 0},
        }
        log.commit(
            {
                "add": _add(
                    f"day=x/f%20{n}",
                    partitionValues={"day": None if n == 3 else f"2020-01-0{n}"},
                    stats=json.dumps(stats),
                    deletionVector=_vector("^-aqEH.-t@S}K{vb[*k^") if n == 4 else None,
                    tags={"k": "v"} if n == 2 else None,
                )
            },
            {"txn": {"appId": f"app{n % 2}", "version": n}},
            {"domainMetadata": {"domain": "x", "configuration": str(n), "removed": False}},
        )
    log.commit({"remove": _remove("day=x/f%201")})
    return read_history(LocalStorage(log.root.parent), "t")


def _forget(log: Log, *, before: int) -> None:
    for version in range(before):
        log.path(f"{version:020}.json").unlink()


def _state(history: TableHistory) -> dict[str, DataFile]:
    return {f.path: f.file for f in _at(history, history.version)}


@pytest.mark.parametrize("keep", [True, False])
def test_state_of_a_checkpoint_equals_the_replayed_state(
    log: Log, storage: LocalStorage, keep: bool
) -> None:
    whole = _big(log)
    log.checkpoint(6)
    _forget(log, before=6 if keep else 7)

    short = read_history(storage, "t")

    assert (short.first_version, short.version) == (6, 6)
    assert _state(short) == _state(whole)
    assert short.definitions == [(6, whole.definitions[-1][1])]
    assert (short.uuid, short.name) == (whole.uuid, whole.name)
    assert short.domains == whole.domains == {"x": "5"}
    assert sorted(a.version for _, a in short.app_transactions) == [4, 5]
    assert short.commits[0].info.operation == ("WRITE" if keep else "UNKNOWN")
    assert short.commits[0].info.adopted
    if keep:
        assert short.commits[0] == replace(whole.commits[6], app_transactions=())


def _split(log: Log, version: int) -> list[pa.Table]:
    log.checkpoint(version)
    path = log.path(f"{version:020}.checkpoint.parquet")
    table = pq.read_table(path)
    path.unlink()
    return [table.slice(i, 1) for i in range(len(table))]


def test_checkpoint_in_parts(log: Log, storage: LocalStorage) -> None:
    whole = _big(log)
    rows = _split(log, 6)
    half = len(rows) // 2
    parts = [pa.concat_tables(rows[:half]), pa.concat_tables(rows[half:])]
    names = [f"{6:020}.checkpoint.{n + 1:010}.{2:010}.parquet" for n in range(2)]
    pq.write_table(parts[0], log.path(names[0]))
    _forget(log, before=6)
    with pytest.raises(CorruptTable, match="version 5 is missing"):
        read_history(storage, "t")

    pq.write_table(parts[1], log.path(names[1]))
    assert _state(read_history(storage, "t")) == _state(whole)


@pytest.mark.parametrize("top", ["json", "parquet", "classic"])
def test_checkpoint_with_sidecars(log: Log, storage: LocalStorage, top: str) -> None:
    whole = _big(log, sidecars=True)
    rows = _split(log, 6)
    adds = [row for row in rows if row["add"][0].is_valid]
    small = [row for row in rows if not row["add"][0].is_valid and not row["remove"][0].is_valid]
    log.path("_sidecars").mkdir()
    sidecars = []
    for n in range(2):
        name = f"sidecar-{n}.parquet"
        pq.write_table(
            pa.concat_tables(adds[n::2]).select(["add", "remove"]), log.path("_sidecars") / name
        )
        place = name if n else f"{log.path('_sidecars').as_uri()}/{name}"
        sidecars.append({"path": place, "sizeInBytes": 1, "modificationTime": 1, "tags": {}})
    name = f"{6:020}.checkpoint.{UUID}.{top}"
    actions = [{"checkpointMetadata": {"version": 6}}, *({"sidecar": s} for s in sidecars)]
    if top == "json":
        table = pa.concat_tables(small)
        for row in table.to_pylist():
            ((kind, body),) = ((k, v) for k, v in row.items() if v is not None)
            if kind == "metaData":
                body["configuration"] = dict(body["configuration"])
                body["format"]["options"] = {}
            actions.append({kind: body})
        log.path(name).write_bytes(b"\n".join(map(orjson.dumps, actions)))
    else:
        if top == "classic":
            name = f"{6:020}.checkpoint.parquet"
        kind = rows[0].schema.field("sidecar").type
        base = pa.concat_tables(small)
        extra = pa.table(
            {
                f.name: pa.array([{**s, "tags": None} for s in sidecars], kind)
                if f.name == "sidecar"
                else pa.nulls(2, f.type)
                for f in base.schema
            }
        )
        pq.write_table(pa.concat_tables([base, extra]).cast(_nullable(base.schema)), log.path(name))
    _forget(log, before=6)

    assert _state(read_history(storage, "t")) == _state(whole)

    (log.path("_sidecars") / "sidecar-1.parquet").unlink()
    with pytest.raises(CorruptTable, match="sidecar-1"):
        read_history(storage, "t")


def _nullable(schema: pa.Schema) -> pa.Schema:
    def kind(source: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(source):
            return pa.struct([pa.field(f.name, kind(f.type)) for f in source])
        if pa.types.is_list(source):
            return pa.list_(kind(source.value_type))
        return source

    return pa.schema([pa.field(f.name, kind(f.type)) for f in schema])


def test_statistics_kept_as_columns_are_read(log: Log, storage: LocalStorage) -> None:
    whole = _big(log)
    log.checkpoint(6)
    path = log.path(f"{6:020}.checkpoint.parquet")
    table = pq.read_table(path)
    rows = table.to_pylist()
    bounds = pa.struct(
        [("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("d", pa.decimal128(9, 2))]
    )
    counts = pa.struct([("id", pa.int64()), ("at", pa.int64()), ("d", pa.int64())])
    parsed = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", bounds),
            ("maxValues", bounds),
            ("nullCount", counts),
        ]
    )
    for row in rows:
        if row["add"]:
            stats = json.loads(row["add"]["stats"], parse_float=decimal.Decimal)
            for side in ("minValues", "maxValues"):
                stats[side]["at"] = datetime.fromisoformat(stats[side]["at"])
            row["add"] |= {"stats": None, "stats_parsed": stats}
    kind = table.schema.field("add").type
    columns = {
        f.name: pa.array([r[f.name] for r in rows], f.type) for f in table.schema if f.name != "add"
    }
    for kept in (True, False):
        fields = [f for f in kind if kept or f.name != "stats"]
        adds = pa.array([r["add"] for r in rows], pa.struct([*fields, ("stats_parsed", parsed)]))
        pq.write_table(pa.table({"add": adds, **columns}), path)
        log.path(f"{0:020}.json").unlink(missing_ok=True)
        short = read_history(storage, "t")
        assert short.first_version == 6
        assert _state(short) == _state(whole)


def test_oldest_checkpoint_gives_the_longest_history(log: Log, storage: LocalStorage) -> None:
    _big(log)
    for version in (2, 4, 6):
        log.checkpoint(version)
    log.path("_last_checkpoint").write_text('{"version": 6, "size": 1}')
    _forget(log, before=2)
    assert read_history(storage, "t").first_version == 2
    log.path(f"{3:020}.json").unlink()
    assert read_history(storage, "t").first_version == 4


def test_damaged_checkpoint_is_passed_over_for_a_sound_one(log: Log, storage: LocalStorage) -> None:
    _big(log)
    for version in (2, 4):
        log.checkpoint(version)
    _forget(log, before=2)
    log.path(f"{2:020}.checkpoint.parquet").write_bytes(b"PAR1 nonsense PAR1")
    assert read_history(storage, "t").first_version == 4
    log.path(f"{4:020}.checkpoint.parquet").write_bytes(b"")
    with pytest.raises(CorruptTable, match="not Parquet") as caught:
        read_history(storage, "t")
    assert caught.value.version == 2


def test_time_of_a_bare_checkpoint_is_before_the_next_commit(
    log: Log, storage: LocalStorage
) -> None:
    whole = _big(log)
    log.checkpoint(3)
    _forget(log, before=4)

    history = read_history(storage, "t")

    assert [c.timestamp_ms for c in history.commits[1:]] == [
        c.timestamp_ms for c in whole.commits[4:]
    ]
    assert history.commits[0].timestamp_ms < history.commits[1].timestamp_ms


# --- our own publication


def _own() -> tuple[Head, Definition, list[Commit]]:
    schema = Schema.from_arrow(
        pa.schema(
            [
                ("id", pa.int64()),
                ("tags", pa.list_(pa.timestamp("ms"))),
                ("day", pa.date32()),
                ("at", pa.timestamp("ms", "UTC")),
                ("price", pa.decimal128(38, 2)),
                ("deep", pa.map_(pa.string(), pa.struct([("x", pa.list_(pa.int8()))]))),
            ]
        )
    )
    definition = Definition(
        schema=schema,
        partition_by=(schema.field("day").id,),
        properties={"owner": "ann"},
        constraints={"positive": "id > 0"},
        protocol={
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["timestampNtz"],
            "writerFeatures": ["inCommitTimestamp", "timestampNtz"],
        },
        created_ms=1_700_000_000_000,
        comment="what was sold",
    )
    ids = {f.name: f.id for f in schema.fields}
    bounds = FileStats(
        {ids["id"]: 1, ids["at"]: 1_700_000_000_000_000, ids["price"]: "12345678901234567.80"},
        {ids["id"]: 5, ids["at"]: 1_700_000_000_001_000, ids["price"]: "98765432109876543.21"},
        {ids["id"]: 0, ids["at"]: 0, ids["price"]: 2},
    )
    files = [
        DataFile(
            f"day=2024-01-0{n}/a b%{n}.parquet",
            n,
            5,
            1_700_000_000_000 + n,
            {ids["day"]: 19722 + n},
            bounds,
        )
        for n in range(1, 4)
    ]
    info = CommitInfo("tx0", "CREATE", engine="Lakeward/0.1.0", actor="ann", members=2, attempts=3)
    commits = [
        Commit(0, 1_700_000_000_000, info, definition=definition),
        Commit(
            1,
            1_700_000_000_005,
            CommitInfo(
                "tx1",
                "WRITE",
                {"mode": "append"},
                {"rows": "5"},
                "bo",
                "Lakeward/0.1.0",
                "why",
                blind=True,
            ),
            tuple(files),
            app_transactions=(AppTransaction("app", 7, 1_700_000_000_001),),
        ),
        Commit(
            2,
            1_700_000_000_006,
            CommitInfo("tx2", "REMOVE", engine="Lakeward/0.1.0", data_change=False),
            removed=(LoggedFile(files[1], 1, 1),),
        ),
    ]
    head = cast(Head, SimpleNamespace(uuid=UUID, name=TableName("sales", "orders")))
    return head, definition, commits


def test_what_we_publish_comes_back_without_loss(tmp_path: Path, storage: LocalStorage) -> None:
    head, definition, commits = _own()
    for commit in commits:
        storage.put_if_absent(
            commit_path("t", commit.version), commit_bytes(head, commit, definition)
        )

    history = read_history(storage, "t")

    assert (history.uuid, history.name) == (UUID, "sales.orders")
    assert history.definitions == [(0, definition)]
    assert history.definitions[0][1].schema.last_id == definition.schema.last_id
    assert [f.file for f in history.files] == list(commits[1].added)
    assert [(f.added, f.ordinal, f.removed) for f in history.files] == [
        (1, 0, LIVE),
        (1, 1, 2),
        (1, 2, LIVE),
    ]
    for ours, theirs in zip(commits, history.commits, strict=True):
        assert theirs.timestamp_ms == ours.timestamp_ms
        assert theirs.info == replace(ours.info, adopted=True, extra=theirs.info.extra)
    assert history.app_transactions == [(1, commits[1].app_transactions[0])]
    assert DeltaTable(tmp_path / "t").version() == 2


def test_what_we_checkpoint_comes_back(tmp_path: Path, storage: LocalStorage) -> None:
    head, definition, commits = _own()
    live = [LoggedFile(f, 1, n) for n, f in enumerate(commits[1].added)]
    data, _ = checkpoint_bytes(head, definition, live, [], commits[1].app_transactions)
    storage.put(f"t/_delta_log/{1:020}.checkpoint.parquet", data)

    history = read_history(storage, "t")

    assert history.definitions == [(1, definition)]
    assert [replace(f.file, stats=None) for f in history.files] == [
        replace(f.file, stats=None) for f in live
    ]
    for found, known in zip(history.files, live, strict=True):
        assert found.file.stats is not None
        assert known.file.stats is not None
        assert found.file.stats.nulls == known.file.stats.nulls
        for field_id, value in known.file.stats.minimum.items():
            kind = definition.schema.by_id[field_id].type
            low = from_neutral(kind, found.file.stats.minimum[field_id])
            high = from_neutral(kind, found.file.stats.maximum[field_id])
            assert low <= from_neutral(kind, value)
            assert from_neutral(kind, known.file.stats.maximum[field_id]) <= high


def test_marks_that_engines_copied_elsewhere_do_no_harm(log: Log, storage: LocalStorage) -> None:
    twice = [_column("a", "long", **{"lakeward.id": 3}), _column("b", "long", **{"lakeward.id": 3})]
    log.start(
        (), schemaString=json.dumps({"type": "struct", "fields": [*twice, _column("c", "long")]})
    )
    changed = [
        _column("c", "long"),
        _column("a", "string", **{"lakeward.id": 3, "lakeward.type": "timestamp_ms"}),
    ]
    log.commit(
        {"metaData": _metadata((), schemaString=json.dumps({"type": "struct", "fields": changed}))}
    )

    (_, first), (_, second) = read_history(storage, "t").definitions

    assert {f.name: f.id for f in first.schema.fields} == {"a": 3, "b": 4, "c": 5}
    assert {f.name: f.id for f in second.schema.fields} == {"c": 5, "a": 3}
    assert second.schema.field("a").type == Primitive("string")


# --- damage


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
    "climbing path": (orjson.dumps({"add": _add("../../etc/passwd")}), "leads out"),
    "climbing path, encoded": (orjson.dumps({"add": _add("a/%2e%2e/%2E./b")}), "leads out"),
    "climbing URI": (orjson.dumps({"add": _add("file:///a/../b")}), "leads out"),
    "climbing removal": (orjson.dumps({"remove": _remove("../a")}), "leads out"),
    "path of nothing": (orjson.dumps({"add": _add("%00")}), "leads out"),
    "path that is no text": (orjson.dumps({"add": _add("%FF")}), "utf-8"),
    "negative size": (orjson.dumps({"add": _add("a", size=-1)}), "size -1"),
    "size of a text": (orjson.dumps({"add": _add("a", size="1")}), "size '1'"),
    "size beyond numbers": (orjson.dumps({"add": _add("a", size=2**63)}), "size"),
    "no size": (b'{"add":{"path":"a"}}', "'size' is missing"),
    "partition values of a list": (
        orjson.dumps({"add": _add("a", partitionValues=[1])}),
        "damaged",
    ),
    "wrong partition value": (
        orjson.dumps({"add": _add("a", partitionValues={"p": "x"})}),
        "'x' is no int64, the type of the partition column p",
    ),
    "partition value of a number": (
        orjson.dumps({"add": _add("a", partitionValues={"p": [1]})}),
        "damaged",
    ),
    "vector of nothing": (orjson.dumps({"add": _add("a", deletionVector={})}), "storageType"),
    "vector of another kind": (
        orjson.dumps({"add": _add("a", deletionVector={**_vector("x" * 20), "storageType": "z"})}),
        "deletion vector",
    ),
    "vector that climbs": (
        orjson.dumps({"add": _add("a", deletionVector=_vector("../x/" + "y" * 20))}),
        "deletion vector",
    ),
    "vector of a text": (orjson.dumps({"add": _add("a", deletionVector="x")}), "damaged"),
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
    "schema of nothing": (orjson.dumps({"metaData": _metadata((), schemaString="{}")}), "schema"),
    "schema that is not JSON": (
        orjson.dumps({"metaData": _metadata((), schemaString="x")}),
        "schema cannot be understood",
    ),
    "schema of a number": (
        orjson.dumps({"metaData": _metadata((), schemaString=5)}),
        "schemaString",
    ),
    "column of an unknown type": (
        orjson.dumps({"metaData": _metadata([("a", "quaternion")])}),
        "schema cannot be understood",
    ),
    "absurd decimal": (
        orjson.dumps({"metaData": _metadata([("a", "decimal(99,3)")])}),
        "does not exist",
    ),
    "column named by a number": (
        orjson.dumps(
            {
                "metaData": _metadata(
                    (), schemaString='{"fields":[{"name":5,"type":"long","nullable":true}]}'
                )
            }
        ),
        "column 5",
    ),
    "metadata of a list": (
        orjson.dumps(
            {
                "metaData": _metadata(
                    (),
                    schemaString='{"fields":[{"name":"a","type":"long","nullable":true,"metadata":[1]}]}',
                )
            }
        ),
        "schema cannot be understood",
    ),
    "two columns of a name": (
        orjson.dumps({"metaData": _metadata([("a", "long"), ("a", "long")])}),
        "same name",
    ),
    "huge schema": (
        orjson.dumps({"metaData": _metadata([(f"c{n}", "long") for n in range(10_001)])}),
        "more than 10000 fields",
    ),
    "absent partition column": (
        orjson.dumps({"metaData": _metadata(ID_NAME, partitionColumns=["nope"])}),
        "partition column 'nope'",
    ),
    "configuration of a list": (
        orjson.dumps({"metaData": _metadata(ID_NAME, configuration=[1])}),
        "damaged",
    ),
    "created at a text": (
        orjson.dumps({"metaData": _metadata(ID_NAME, createdTime="x")}),
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
    log.commit({"metaData": _metadata(ID_NAME)})
    with pytest.raises(CorruptTable, match="no protocol"):
        read_history(storage, "t")


@pytest.mark.parametrize("gap", [0, 1, 4])
def test_missing_version_is_named(log: Log, storage: LocalStorage, gap: int) -> None:
    log.start()
    for n in range(5):
        log.commit({"add": _add(f"f{n}")})
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
        [{"metaData": _metadata([("v", "variant")])}],
        [
            {"metaData": _metadata([("p", "double")], partitionColumns=["p"])},
            {"add": _add("a", partitionValues={"p": "NaN"})},
        ],
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
    max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_no_junk_escapes_as_a_raw_error(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    dice = random.Random(seed)
    root = tmp_path_factory.mktemp("junk")
    log = Log(root / "t")
    _big(log)
    if dice.random() < 0.3:
        log.checkpoint(4)
        _forget(log, before=4)
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


def test_base64_of_the_lake_is_not_in_the_way() -> None:
    field = Field(1, "p", Primitive("binary"))
    assert partition_value(field, "ab") == base64.b64encode(b"ab").decode()
