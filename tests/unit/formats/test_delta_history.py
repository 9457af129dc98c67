"""Tables that deltalake wrote, read back: at every version both must say the same."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Schema as DeltaSchema

from lakeward.formats.delta.history import newest_version, read_history
from lakeward.formats.delta.schema import physical_name
from lakeward.model.commit import AppTransaction
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE, DataFile, FileStats, LoggedFile
from lakeward.model.history import TableHistory
from lakeward.model.types import Field
from lakeward.model.values import from_neutral, to_neutral
from lakeward.storage.local import LocalStorage
from tests.support.delta_log import (
    Log,
    add,
    check_incrementally,
    files_at,
)


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
        _same_files(files_at(history, version), definition, theirs)


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
    if str(field.type) in ("float", "double"):
        assert field.id not in stats.maximum  # a NaN may be in the file
        assert lowest == low
        return
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


def test_reading_commit_by_commit_gives_the_same_history(real: Path, storage: LocalStorage) -> None:
    check_incrementally(storage, real)


def test_newest_version_is_found_by_probing_listing_and_checkpoints(
    tmp_path: Path, storage: LocalStorage
) -> None:
    log = Log(tmp_path / "t").start()
    for n in range(1, 60):
        log.commit({"add": add(f"f{n}")})
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
