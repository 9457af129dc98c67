"""The ids of rows of a Delta table with row tracking, found as its protocol says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import lakeward as lw
from lakeward.formats.delta.schema import physical_name

_NAMES = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)


def published(table: lw.Table, kind: str) -> list[dict[str, Any]]:
    """All actions of a kind in the table's published log, each with its version, in order."""
    out = []
    for path in sorted(
        (Path(table.location.removeprefix("file://")) / "_delta_log").glob("*.json")
    ):
        for line in path.read_text().splitlines():
            action = json.loads(line)
            if kind in action:
                out.append({"at": int(path.stem), **action[kind]})
    return out


def row_ids(table: lw.Table, key: str = "id") -> dict[Any, tuple[int, int]]:
    """The id and the version of every row of a table without deletion vectors, by its key."""
    live: dict[str, dict[str, Any]] = {}
    adds, removes = published(table, "add"), published(table, "remove")
    for version in range(table.version + 1):
        for action in removes:
            if action["at"] == version:
                live.pop(action["path"])
        live.update({a["path"]: a for a in adds if a["at"] == version})
    names = [table.definition.properties[n] for n in _NAMES]
    key = physical_name(table.schema.field(key))
    out: dict[Any, tuple[int, int]] = {}
    for path, action in live.items():
        rows = pq.read_table(f"{table.location.removeprefix('file://')}/{path}")
        count = rows.num_rows
        kept = [rows[n] if n in rows.column_names else pa.nulls(count) for n in names]
        for place, found in enumerate(rows[key].to_pylist()):
            own = [column[place].as_py() for column in kept]
            assert found not in out
            out[found] = (
                action["baseRowId"] + place if own[0] is None else own[0],
                action["defaultRowCommitVersion"] if own[1] is None else own[1],
            )
    assert len({row_id for row_id, _ in out.values()}) == len(out)
    return out


def high_water_mark(table: lw.Table) -> int:
    """The highest id that the published log says was given out."""
    found = [d for d in published(table, "domainMetadata") if d["domain"] == "delta.rowTracking"]
    return int(json.loads(found[-1]["configuration"])["rowIdHighWaterMark"])
