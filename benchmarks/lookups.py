"""Lookups of one key after Z-order and with Bloom filters, beside deltalake.

Both sides have files of the same target size after Z-order, and the same files with Bloom filters
on the key. deltalake opens each file whose bounds may have the key, and probes filters after that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import (
    BloomFilterProperties,
    ColumnProperties,
    DeltaTable,
    QueryBuilder,
    WriterProperties,
    write_deltalake,
)

import lakeward as lw
from benchmarks.result import Claim, Quantity, Series
from benchmarks.rounds import check_arrived, interleave

_PEER = "deltalake"
_KEY = "id"
_FILES = 32
"""About so many files there are after Z-order."""
_BYTES_PER_ROW = 24
_FILTERED = WriterProperties(
    column_properties={
        _KEY: ColumnProperties(bloom_filter_properties=BloomFilterProperties(True, fpp=0.01))
    }
)


def lookups(
    lake: lw.Lake, place: Path, parts: Sequence[pa.Table], columns: list[str], rounds: int
) -> tuple[list[Series], list[Claim]]:
    """Look one key up in both ways; the times, and the files that each side opens."""
    key = parts[3][_KEY][len(parts[3]) // 2].as_py()
    size = sum(map(len, parts)) * _BYTES_PER_ROW // _FILES
    series: list[Series] = []
    claims: list[Claim] = []
    ordered = lake.create("ordered", parts[0].schema)
    filtered = lake.create("filtered", parts[0].schema, properties={"lakeward.bloom": _KEY})
    plain, probed = str(place / "peer_ordered"), str(place / "peer_filtered")
    for part in parts:
        ordered.append(part)
        filtered.append(part)
        write_deltalake(plain, part, mode="append")
        write_deltalake(probed, part, mode="append", writer_properties=_FILTERED)
    ordered.optimize(zorder=columns, target_size=size)
    DeltaTable(plain).optimize.z_order(columns, target_size=size)
    for way, table, location in (
        ("Z-order", ordered, plain),
        ("Bloom filters", filtered, probed),
    ):
        contenders = {
            f"lakeward: lookup by {way}": _ours(table, key),
            f"{_PEER}: lookup by {way}": _theirs(DeltaTable(location), key),
        }
        series += interleave(contenders, rounds=rounds, warm_up=1)
        claims.append(_opened(way, table, DeltaTable(location), key))
    return series, claims


def _ours(table: lw.Table, key: int) -> Callable[[], float]:
    def once() -> float:
        started = perf_counter()
        found = table.to_arrow(where=f"{_KEY} = {key}").num_rows
        taken = perf_counter() - started
        check_arrived(found > 0, wanted=True)
        return taken

    return once


def _theirs(table: DeltaTable, key: int) -> Callable[[], float]:
    def once() -> float:
        started = perf_counter()
        query = f"SELECT * FROM t WHERE {_KEY} = {key}"
        found = pa.table(QueryBuilder().register("t", table).execute(query).read_all()).num_rows
        taken = perf_counter() - started
        check_arrived(found > 0, wanted=True)
        return taken

    return once


def _opened(way: str, table: lw.Table, peer: DeltaTable, key: int) -> Claim:
    """Compare the files that are opened; by Bloom filters they are at most a fifth of all."""
    ours, every = len(table.files(where=f"{_KEY} = {key}")), len(table.files())
    actions = pa.table(peer.get_add_actions(flatten=True))
    inside = (pc.field(f"min.{_KEY}") <= key) & (pc.field(f"max.{_KEY}") >= key)
    theirs = actions.filter(inside).num_rows
    probes = way == "Bloom filters"
    return Claim(
        f"files opened by a lookup by {way}, of {every} (theirs of {actions.num_rows})",
        Quantity(ours, "files"),
        "≤ 1/5 of all" if probes else "no more than the peer",
        ours * 5 <= every if probes else ours <= theirs,
        _PEER,
        Quantity(theirs, "files"),
        theirs / ours,
    )
