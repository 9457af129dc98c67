"""A Delta branch inside a transaction, worked on by whoever likes, and committed at the end."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from lakeward.engines.datafusion import write_difference
from lakeward.formats.delta.changes import Difference
from lakeward.formats.delta.history import read_history
from lakeward.formats.delta.values import written_path
from lakeward.model.file import LIVE, is_full
from lakeward.model.names import TableName
from lakeward.storage.local import LocalStorage
from lakeward.write.branch.delta import DeltaBranch
from lakeward.write.transaction.transaction import Transaction
from tests.support.inside import context_of
from tests.support.invariants import Rows, rows_of, stranger_rows
from tests.support.s3 import on_disk


def by_delta_rs(task: Difference) -> None:
    """Tells the difference of two versions with delta-rs."""
    write_difference(task.before, task.after, task.target, task.columns)


def begin(
    lake: lw.Lake, name: str, *, blind: bool = False, **options: Any
) -> tuple[Transaction, DeltaBranch]:
    """A transaction with a branch of a table in it."""
    tx = lake.transaction(**options)
    member = tx._view.member(TableName.parse(name), reads=not blind)
    tx._lifecycle.registered.ensure()
    base = None if blind else member.files()
    change = member.change
    branch = DeltaBranch.open(
        context_of(lake),
        tx.transaction_id,
        change.head,
        change.definition,
        whole=not blind,
        base=base,
    )
    return tx, branch


def finish(tx: Transaction, branch: DeltaBranch, *, evolve: bool = False) -> int:
    """Commit what was done on the branch; the new version."""
    net = branch.net(evolve=evolve, differ=by_delta_rs)
    branch.fill(tx._view.members[branch.head.name].change, net)
    version = tx.commit().versions[str(branch.head.name)]
    branch.tidy(net)
    return version


@contextmanager
def on_branch(lake: lw.Lake, name: str, *, blind: bool = False) -> Generator[str]:
    """The location of a branch, whose work is committed at the end."""
    tx, branch = begin(lake, name, blind=blind)
    yield branch.location
    finish(tx, branch)


def merge(location: str, rows: pa.Table) -> None:
    """Upsert rows by `id` with delta-rs."""
    table = DeltaTable(location)
    merger = table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()


def upsert(location: str, rows: pa.Table) -> None:
    """The same as `merge`, by an engine of few words: delta-rs leaves no base file as it is."""
    place = on_disk(location)
    history = read_history(LocalStorage(place.parent), place.name)
    definition = history.definitions[-1][1]
    names = {f.id: f.name for f in definition.partition_fields}
    wanted = set(rows.column("id").to_pylist())
    told: list[dict[str, Any]] = [{"commitInfo": {"timestamp": 0, "operation": "MERGE"}}]
    parts = [({}, rows)] if not names else _by_partition(rows, *names.values())
    for found in (f.file for f in history.files if f.removed == LIVE):
        values = {names[i]: v for i, v in found.partition.items()}
        old = pq.read_table(
            on_disk(found.path) if is_full(found.path) else place / found.path, partitioning=None
        )
        kept = old.filter([i not in wanted for i in old.column("id").to_pylist()])
        if kept.num_rows < old.num_rows:
            told.append({"remove": {"path": written_path(found), "dataChange": True}})
            parts += [(values, kept)] if kept.num_rows else []
    for values, part in parts:
        name = f"part-{uuid4()}.parquet"
        inside = [c for c in part.column_names if c not in values]
        pq.write_table(part.select(inside), place / name)
        stats = orjson.dumps({"numRecords": part.num_rows}).decode()
        size = (place / name).stat().st_size
        action = {"path": name, "partitionValues": values, "size": size, "stats": stats}
        told.append({"add": {**action, "modificationTime": 0, "dataChange": True}})
    log = place / "_delta_log" / f"{history.version + 1:020}.json"
    log.write_bytes(b"\n".join(map(orjson.dumps, told)) + b"\n")


def everybody_reads(lake: lw.Lake, name: str) -> Rows:
    """The rows that the lake and delta-rs read, which must be the same."""
    ours = rows_of(lake.table(name).to_arrow())
    assert stranger_rows(lake.table(name).location) == ours
    return ours


def feed_of(lake: lw.Lake, name: str, version: int) -> Rows:
    """By how many each row became more or less with a version, as its change feed tells."""
    location = lake.table(name).location
    found = DeltaTable(location).load_cdf(starting_version=version, ending_version=version)
    table = pa.table(found.read_all())
    assert set(table.column("_commit_version").to_pylist()) <= {version}
    kinds = table.column("_change_type").to_pylist()
    plain = table.select(lake.table(name).schema.names)
    out = Rows()
    for place, kind in enumerate(kinds):
        (row,) = rows_of(plain.slice(place, 1))
        out[row] += 1 if kind in ("insert", "update_postimage") else -1
    return Rows({row: count for row, count in out.items() if count})


def difference_of(lake: lw.Lake, name: str, version: int) -> Rows:
    """The same, found by comparing the two versions row by row."""
    location = lake.table(name).location
    out = Rows()
    for number, sign in ((version - 1, -1), (version, 1)):
        engine = QueryBuilder().register("t", DeltaTable(location, version=number))
        for row, count in rows_of(pa.table(engine.execute("SELECT * FROM t"))).items():
            out[row] += sign * count
    return Rows({row: count for row, count in out.items() if count})


def _by_partition(rows: pa.Table, column: str) -> list[tuple[dict[str, Any], pa.Table]]:
    values = rows.column(column)
    return [({column: v}, rows.filter(pc.equal(values, v))) for v in values.unique().to_pylist()]
