"""Checkpoints of every kind hold the state that replaying the commits gives."""

from __future__ import annotations

import decimal
import json
from dataclasses import replace
from datetime import datetime

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.errors import CorruptTable
from lakeward.formats.delta import restore
from lakeward.formats.delta.history import (
    read_history,
)
from lakeward.storage.local import LocalStorage
from tests.support.delta_log import (
    UUID,
    Log,
    forget,
    grow_richly,
    state_of,
)


@pytest.mark.parametrize("keep", [True, False])
def test_state_of_a_checkpoint_equals_the_replayed_state(
    log: Log, storage: LocalStorage, keep: bool
) -> None:
    whole = grow_richly(log)
    log.checkpoint(6)
    forget(log, before=6 if keep else 7)

    short = read_history(storage, "t")

    assert (short.first_version, short.version) == (6, 6)
    assert state_of(short) == state_of(whole)
    assert short.definitions == [(6, whole.definitions[-1][1])]
    assert (short.uuid, short.name) == (whole.uuid, whole.name)
    assert short.domains == whole.domains == {"x": "5"}
    assert sorted(a.version for _, a in short.app_transactions) == [4, 5]
    assert short.commits[0].info.operation == ("WRITE" if keep else "UNKNOWN")
    assert short.commits[0].info.adopted
    if keep:
        known = replace(whole.commits[6], app_transactions=(), domains=whole.domains)
        assert short.commits[0] == known


def _split(log: Log, version: int) -> list[pa.Table]:
    log.checkpoint(version)
    path = log.path(f"{version:020}.checkpoint.parquet")
    table = pq.read_table(path)
    path.unlink()
    return [table.slice(i, 1) for i in range(len(table))]


def test_checkpoint_in_parts(log: Log, storage: LocalStorage) -> None:
    whole = grow_richly(log)
    rows = _split(log, 6)
    half = len(rows) // 2
    parts = [pa.concat_tables(rows[:half]), pa.concat_tables(rows[half:])]
    names = [f"{6:020}.checkpoint.{n + 1:010}.{2:010}.parquet" for n in range(2)]
    pq.write_table(parts[0], log.path(names[0]))
    forget(log, before=6)
    with pytest.raises(CorruptTable, match="version 5 is missing"):
        read_history(storage, "t")

    pq.write_table(parts[1], log.path(names[1]))
    assert state_of(read_history(storage, "t")) == state_of(whole)


@pytest.mark.parametrize("top", ["json", "parquet", "classic"])
def test_checkpoint_with_sidecars(log: Log, storage: LocalStorage, top: str) -> None:
    whole = grow_richly(log, sidecars=True)
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
    forget(log, before=6)

    assert state_of(read_history(storage, "t")) == state_of(whole)

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
    whole = grow_richly(log)
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
        assert state_of(short) == state_of(whole)


def test_oldest_checkpoint_gives_the_longest_history(log: Log, storage: LocalStorage) -> None:
    grow_richly(log)
    for version in (2, 4, 6):
        log.checkpoint(version)
    log.path("_last_checkpoint").write_text('{"version": 6, "size": 1}')
    forget(log, before=2)
    assert read_history(storage, "t").first_version == 2
    log.path(f"{3:020}.json").unlink()
    assert read_history(storage, "t").first_version == 4


def test_damaged_checkpoint_is_passed_over_for_a_sound_one(log: Log, storage: LocalStorage) -> None:
    grow_richly(log)
    for version in (2, 4):
        log.checkpoint(version)
    forget(log, before=2)
    log.path(f"{2:020}.checkpoint.parquet").write_bytes(b"PAR1 nonsense PAR1")
    assert read_history(storage, "t").first_version == 4
    log.path(f"{4:020}.checkpoint.parquet").write_bytes(b"")
    with pytest.raises(CorruptTable, match="not Parquet") as caught:
        read_history(storage, "t")
    assert caught.value.version == 2


def test_time_of_a_bare_checkpoint_is_before_the_next_commit(
    log: Log, storage: LocalStorage
) -> None:
    whole = grow_richly(log)
    log.checkpoint(3)
    forget(log, before=4)

    history = read_history(storage, "t")

    assert [c.timestamp_ms for c in history.commits[1:]] == [
        c.timestamp_ms for c in whole.commits[4:]
    ]
    assert history.commits[0].timestamp_ms < history.commits[1].timestamp_ms


def test_large_checkpoints_are_read_piece_by_piece(
    log: Log, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = grow_richly(log)
    log.checkpoint(6)
    forget(log, before=6)
    for size in (1, 2, 3, 100):
        monkeypatch.setattr(restore, "_PIECE", size)
        assert state_of(read_history(storage, "t")) == state_of(whole)
