"""The same rows from a table with mapped columns and from one without, into Arrow.

All tables get the same rows by the embedded engine, in as many files. Columns mapped by name are
read under the names in the files; columns mapped by ids are found by the ids in every footer.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema

import lakeward as lw
from benchmarks.data import SCHEMA, rows
from benchmarks.result import Claim, Result, Series, Settings, faster
from benchmarks.rounds import by_name, interleave, timed
from benchmarks.scratch import fresh

FILES = 50
MODES = {"none": "not mapped", "name": "mapped by name", "id": "mapped by ids"}
LIMIT = 1.1
_PART = pa.struct([("v", pa.float64()), ("s", pa.string())])
_SCHEMA = SCHEMA.append(pa.field("part", _PART))
_WHERE = "v >= 30000 AND v < 60000"


def run(settings: Settings) -> Result:
    """Read everything, nested columns too, and some rows."""
    per_file = settings.choose(200_000, 20_000)
    place = fresh(settings.scratch / "mapped")
    with lw.open(place / "lake") as lake:
        tables = {words: _table(lake, place / mode, mode) for mode, words in MODES.items()}
        for number in range(FILES):
            data = rows(per_file, start=number * per_file)
            part = pa.StructArray.from_arrays(
                [data["v"].combine_chunks(), data["s"].combine_chunks()], fields=list(_PART)
            )
            for table in tables.values():
                with lake.transaction() as tx:
                    tx.append(table.name, data.append_column("part", part))
        series: list[Series] = []
        claims: list[Claim] = []
        for case, where in (("all", None), ("a fifth of the rows", _WHERE)):
            _check(tables, where)
            readers = {
                f"{words}, {case}": timed(partial(t.to_arrow, where=where))
                for words, t in tables.items()
            }
            found = interleave(readers, rounds=settings.choose(25, 3), warm_up=1)
            times = by_name(found)
            series += found
            claims += [
                faster(
                    f"scan of columns {words}, {case}, beside one not mapped",
                    times[f"{words}, {case}"],
                    times[f"not mapped, {case}"],
                    times=1 / LIMIT,
                )
                for words in ("mapped by name", "mapped by ids")
            ]
    return Result(
        "mapped",
        f"scan of {FILES * per_file:,} rows from {FILES} files, columns mapped and not",
        series,
        claims,
        (f"{series[0].rounds} rounds after one of warm-up; the embedded engine wrote all tables.",),
    )


def _table(lake: lw.Lake, place: Path, mode: str) -> lw.Table:
    configuration = {} if mode == "none" else {"delta.columnMapping.mode": mode}
    DeltaTable.create(str(place), DeltaSchema.from_arrow(_SCHEMA), configuration=configuration)
    return lake.adopt(f"t_{mode}", place)


def _check(tables: dict[str, lw.Table], where: str | None) -> None:
    """All tables have the same rows."""
    seen = set()
    for table in tables.values():
        found = table.to_arrow(where=where)
        inner = pc.sum(pc.struct_field(found["part"].combine_chunks(), "v")).as_py()
        seen.add((found.num_rows, pc.sum(found["id"]).as_py(), inner))
    if len(seen) != 1:
        message = f"the tables have different rows: {seen}"
        raise RuntimeError(message)
