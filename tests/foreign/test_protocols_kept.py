"""Adopting with the guard keeps what a protocol demands, and its readers go on reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import DeltaError

import lakeward as lw
from lakeward.formats.delta.protocol import GUARD, ICT, guarded, writer_features

_LEGACY = [
    {"minReaderVersion": reader, "minWriterVersion": writer}
    for reader in (1, 2)
    for writer in range(1, 7)
]
_LISTED: list[dict[str, Any]] = [
    {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": writer}
    for writer in ([], ["appendOnly"], ["appendOnly", "checkConstraints", "invariants"])
] + [
    {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": reader,
        "writerFeatures": sorted({*reader, *writer}),
    }
    for reader in (
        [],
        ["columnMapping"],
        ["deletionVectors"],
        ["timestampNtz", "v2Checkpoint"],
        ["vacuumProtocolCheck"],
    )
    for writer in ([], ["invariants"], ["appendOnly", "changeDataFeed"])
]


@pytest.mark.parametrize("before", [*_LEGACY, *_LISTED], ids=json.dumps)
def test_the_guard_adds_to_a_protocol_and_takes_nothing_from_it(before: dict[str, Any]) -> None:
    after = guarded(before)

    assert writer_features(after) == writer_features(before) | {GUARD, ICT}
    if before["minReaderVersion"] == 2 and "columnMapping" in writer_features(before):
        # The same demand, which is spelled as a feature where writer features are listed.
        assert (after["minReaderVersion"], after["readerFeatures"]) == (3, ["columnMapping"])
    else:
        reader = ("minReaderVersion", "readerFeatures")
        assert [after.get(k) for k in reader] == [before.get(k) for k in reader]
    assert guarded(after) == after


@pytest.mark.parametrize("before", [*_LEGACY, *_LISTED], ids=json.dumps)
def test_a_reader_of_an_adopted_table_goes_on_reading(
    tmp_path: Path, before: dict[str, Any]
) -> None:
    place = tmp_path / "t"
    write_deltalake(
        place, pa.table({"id": [1, 2]}), configuration={"delta.checkpointInterval": "2"}
    )
    _set_protocol(place, before)
    was_read = _rows(place)

    with lw.open(tmp_path / "lake") as lake:
        lake.adopt("t", place)
        adopted = _rows(place)
        for number in (3, 4):
            if was_read is not None and lake.table("t").version < 3:
                with lake.transaction() as tx:
                    tx.append("t", pa.table({"id": [number]}))
        lake.publish()

    assert adopted == was_read
    if was_read is not None:
        assert list((place / "_delta_log").glob("*.checkpoint.parquet"))
        assert _rows(place) == [1, 2, 3, 4]


def _set_protocol(place: Path, protocol: dict[str, Any]) -> None:
    log = place / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    changed = [{"protocol": protocol} if "protocol" in a else a for a in actions]
    log.write_text("".join(json.dumps(a) + "\n" for a in changed))


def _rows(place: Path) -> list[int] | None:
    """The ids that delta-rs reads; None where it cannot open the table."""
    try:
        found = QueryBuilder().register("t", DeltaTable(place)).execute("SELECT id FROM t")
    except DeltaError:
        return None
    return sorted(pa.table(found)["id"].to_pylist())
