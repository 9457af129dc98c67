"""Columns whose type was widened, and timestamps of the old kind: read as what the table says."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from tests.support.delta_log import Log, add, metadata_action

_NAN: Final = float("nan")
_BEFORE: Final = {
    "id": ("integer", pa.int32()),
    "b": ("byte", pa.int8()),
    "f": ("float", pa.float32()),
    "m": ("decimal(5,2)", pa.decimal128(5, 2)),
    "d": ("integer", pa.int32()),
    "e": ("integer", pa.int32()),
}
_AFTER: Final = {
    "id": ("long", pa.int64()),
    "b": ("integer", pa.int32()),
    "f": ("double", pa.float64()),
    "m": ("decimal(10,4)", pa.decimal128(10, 4)),
    "d": ("double", pa.float64()),
    "e": ("decimal(12,2)", pa.decimal128(12, 2)),
}
_OLD: Final[list[dict[str, Any]]] = [
    {"id": 1, "b": 1, "f": 1.5, "m": Decimal("1.25"), "d": 5, "e": 6},
    {"id": 2, "b": -3, "f": _NAN, "m": Decimal("-7.50"), "d": None, "e": -1},
]
_NEW: Final[list[dict[str, Any]]] = [
    {"id": 3 * 10**9, "b": 10**5, "f": 1.1, "m": Decimal("99.1234"), "d": 1.5, "e": Decimal("7.5")},
]
_OWN: Final[list[dict[str, Any]]] = [
    {"id": 4 * 10**9, "b": 7, "f": 2.5, "m": Decimal("-0.0001"), "d": 0.5, "e": Decimal("0.25")},
]
_CONDITIONS: Final[dict[str, Callable[[dict[str, Any]], bool]]] = {
    "id = 1": lambda r: r["id"] == 1,
    "id > 2": lambda r: r["id"] > 2,
    "id < 3000000000": lambda r: r["id"] < 3 * 10**9,
    "b > 1": lambda r: r["b"] > 1,
    "b IN (1, 100000)": lambda r: r["b"] in (1, 10**5),
    "f > 1.2": lambda r: not r["f"] <= 1.2,
    "isnan(f)": lambda r: r["id"] == 2,
    "f = 1.1": lambda r: r["f"] == 1.1,
    "m = 1.25": lambda r: r["m"] == Decimal("1.25"),
    "m < 0": lambda r: r["m"] < 0,
    "m > 99.1": lambda r: r["m"] > 99,
    "d = 5": lambda r: r["d"] == 5,
    "d < 2": lambda r: r["d"] is not None and r["d"] < 2,
    "d IS NULL": lambda r: r["d"] is None,
    "e = 6": lambda r: r["e"] == 6,
    "e > 6.5": lambda r: r["e"] > 6.5,
    "e < 0": lambda r: r["e"] < 0,
}


@pytest.mark.parametrize("feature", ["typeWidening", "typeWidening-preview"])
def test_a_widened_table_is_read_and_filtered(tmp_path: Path, feature: str) -> None:
    place = _widened(tmp_path / "t", feature)
    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("t", place)

        assert table.schema.to_arrow().types == [kind for _, kind in _AFTER.values()]
        rows = [*_OLD, *_NEW]
        assert repr([list(r.values()) for r in table.to_arrow().to_pylist()]) == repr(_as_widened())
        assert not _wrong(table, rows)

        with lake.transaction() as tx:
            tx.append("t", pa.Table.from_pylist(_OWN, table.schema.to_arrow()))
            tx.update("t", set={"id": "id + 5000000000", "e": "e + 0.25"}, where="id = 1")
        moved = {**_OLD[0], "id": 5 * 10**9 + 1, "e": Decimal("6.25")}
        assert not _wrong(table, [_OLD[1], *_NEW, *_OWN, moved])
        with lake.transaction() as tx:
            tx.delete("t", where="m < 0 OR id = 4000000000")
        assert not _wrong(table, [*_NEW, moved])


def _wrong(table: lw.Table, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The conditions that find other rows than they should."""
    wrong = {}
    for condition, holds in _CONDITIONS.items():
        found = table.to_arrow(columns=["id"], where=condition)["id"].to_pylist()
        meant = sorted(r["id"] for r in rows if holds(r))
        if sorted(found) != meant:
            wrong[condition] = (found, meant)
    return wrong


def _widened(place: Path, feature: str) -> Path:
    log = Log(place)
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [feature],
        "writerFeatures": [feature],
    }
    on = {"delta.enableTypeWidening": "true"}
    log.start(_columns(_BEFORE), protocol=protocol, configuration=on)
    # Of a file with a name as ours the lake knows the types without a look into the footer.
    name = "old.parquet" if feature == "typeWidening" else "part-00000-old-0abc.parquet"
    log.commit({"add": _file(place, name, _OLD, _BEFORE)})
    log.commit({"metaData": metadata_action(_columns(_AFTER), configuration=on)})
    log.commit({"add": _file(place, "new.parquet", _NEW, _AFTER)})
    return place


def _columns(source: dict[str, tuple[str, pa.DataType]]) -> list[tuple[str, str]]:
    return [(name, kind) for name, (kind, _) in source.items()]


def _file(
    place: Path, name: str, rows: list[dict[str, Any]], kinds: dict[str, tuple[str, pa.DataType]]
) -> dict[str, Any]:
    schema = pa.schema([(n, kind) for n, (_, kind) in kinds.items()])
    pq.write_table(pa.Table.from_pylist(rows, schema), place / name)
    return add(name, size=(place / name).stat().st_size)


def _as_widened() -> list[list[Any]]:
    schema = pa.schema([(n, kind) for n, (_, kind) in _AFTER.items()])
    return [list(r.values()) for r in pa.Table.from_pylist([*_OLD, *_NEW], schema).to_pylist()]


def test_int96_timestamps_of_all_years_are_read(tmp_path: Path) -> None:
    moments = [
        datetime(1, 1, 1, microsecond=1, tzinfo=UTC),
        datetime(1600, 5, 5, 1, 2, 3, 4, UTC),
        datetime(2020, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    ]
    log = Log(tmp_path / "t")
    data = pa.table({"t": pa.array(moments, pa.timestamp("us", "UTC"))})
    pq.write_table(data, log.root / "a.parquet", use_deprecated_int96_timestamps=True)
    log.start([("t", "timestamp")], {"add": add("a.parquet")})
    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("t", log.root)

        assert table.to_arrow()["t"].to_pylist() == moments
        late = table.to_arrow(where="t > TIMESTAMP '2262-05-01 00:00:00'")["t"].to_pylist()
        assert late == moments[3:]
        with lake.transaction() as tx:
            tx.delete("t", where="t < TIMESTAMP '1600-05-05 01:02:03.000005'")
        assert table.to_arrow()["t"].to_pylist() == moments[2:]


def test_a_partition_that_was_widened_from_dates_is_read_at_every_version(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    features = ["timestampNtz", "typeWidening"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    on = {"delta.enableTypeWidening": "true", "delta.checkpointInterval": "2"}
    more = {"configuration": on, "partitionColumns": ["p"]}
    log.start([("id", "long"), ("p", "date")], protocol=protocol, **more)
    texts = ["2020-01-01", None, "1960-02-29", "2020-01-02 03:04:05.000006"]
    for number, text in enumerate(texts):
        if number == 3:
            columns = [("id", "long"), ("p", "timestamp_ntz")]
            log.commit({"metaData": metadata_action(columns, **more)})
        pq.write_table(pa.table({"id": [number]}), log.root / f"{number}.parquet")
        size = (log.root / f"{number}.parquet").stat().st_size
        log.commit({"add": add(f"{number}.parquet", size=size, partitionValues={"p": text})})
    moments = [
        datetime(2020, 1, 1),  # noqa: DTZ001  a timestamp without zone has none
        None,
        datetime(1960, 2, 29),  # noqa: DTZ001
        datetime(2020, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001
    ]
    conditions: dict[str, list[int]] = {
        "p = TIMESTAMP_NTZ '2020-01-01 00:00:00'": [0],
        "p > TIMESTAMP_NTZ '2020-01-01 00:00:00'": [3],
        "p < TIMESTAMP_NTZ '2020-01-01 00:00:01'": [0, 2],
        "p IS NULL": [1],
        "p IS NOT NULL": [0, 2, 3],
    }
    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("t", log.root)

        rows = sorted(table.to_arrow().to_pylist(), key=lambda r: r["id"])
        assert [r["p"] for r in rows] == moments
        for condition, meant in conditions.items():
            found = table.to_arrow(columns=["id"], where=condition)["id"].to_pylist()
            assert (condition, sorted(found)) == (condition, meant)
        before = table.at(version=3).to_arrow(where="p < DATE '2000-01-01'")
        assert before.to_pylist() == [{"id": 2, "p": date(1960, 2, 29)}]
        branch = lake.branch("work", tables=["t"])
        told = _partition_texts(Path(branch.table("t").location))
        branch.drop()
    assert told["1.parquet"] is None
    assert str(told["0.parquet"]).startswith("2020-01-01 00:00:00")
    assert str(told["2.parquet"]).startswith("1960-02-29 00:00:00")
    with lw.open(tmp_path / "again") as lake:
        table = lake.adopt("t", log.root, take_over=True)
        rows = sorted(table.to_arrow().to_pylist(), key=lambda r: r["id"])
        assert [r["p"] for r in rows] == moments
        with lake.transaction() as tx:
            tx.append("t", pa.table({"id": [4, 5], "p": [moments[0], moments[3]]}))
            tx.delete("t", where="id = 4 OR p < TIMESTAMP_NTZ '1999-01-01 00:00:00'")
            tx.update("t", set={"id": "10 + id"}, where="p IS NULL OR id = 0")
        rows = sorted(table.to_arrow().to_pylist(), key=lambda r: r["id"])
        found = [(r["id"], r["p"]) for r in rows]
        assert found == [(3, moments[3]), (5, moments[3]), (10, moments[0]), (11, None)]
        for condition in (f"p = TIMESTAMP_NTZ '{moments[0]}'", "p IS NULL"):
            assert table.to_arrow(where=condition)["id"].to_pylist() in ([10], [11])


def _partition_texts(place: Path) -> dict[str, str | None]:
    """The values of the partition column in a log, by the names of the files."""
    actions: list[dict[str, Any]] = []
    for log in (place / "_delta_log").glob("*.json"):
        actions += map(json.loads, log.read_text().splitlines())
    for checkpoint in (place / "_delta_log").glob("*.parquet"):
        actions += pq.read_table(checkpoint).to_pylist()
    adds = [a["add"] for a in actions if a.get("add") is not None]
    return {Path(a["path"]).name: dict(a["partitionValues"])["p"] for a in adds}
