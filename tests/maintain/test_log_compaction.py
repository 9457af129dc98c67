"""Log compaction files: written where checkpoints are rare, and right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeward as lw
from lakeward.formats.delta import format as delta_format
from lakeward.formats.delta import intervals, log_compaction
from lakeward.formats.delta.log_compaction import compacted_path, write_compacted
from lakeward.log import heads
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from tests.support.inside import context_of
from tests.support.invariants import rows_of, stranger_rows
from tests.support.s3 import on_disk


@pytest.fixture
def store() -> str:
    """What is written depends on the log alone, which is the same on each store."""
    return "sqlite"


@pytest.fixture
def every_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decide about checkpoints at every tenth version, and never for one."""
    monkeypatch.setattr(delta_format, "_CHECKPOINT_EVERY", 10)
    monkeypatch.setattr(intervals, "_FILES_PER_COMMIT", 0)


def worked(lake: lw.Lake, versions: int) -> lw.Table:
    """A table with commits of all kinds."""
    table = lake.create("t", {"n": "int64", "v": "int64"}, policy={"merge_on_read": True})
    for n in range(1, versions + 1):
        match n % 7:
            case 3:
                table.delete(where=f"n = {n - 2}")
            case 5:
                table.update(set={"v": "v + 1"}, where=f"n > {n - 10}")
            case 6:
                with lake.transaction() as tx:
                    tx.append("t", [{"n": n, "v": 1}])
                    tx.record("t", f"app{n % 2}", n)
            case 0:
                table.restore(version=n - 3)
            case _:
                table.append([{"n": n, "v": 0}])
    table.alter().add_column(f"w{versions}", "int64").commit()
    return table


def head_of(lake: lw.Lake, name: str = "t") -> Head:
    with context_of(lake).database.read() as session:
        return heads.get(session, TableName.parse(name))


def compacted(table: lw.Table) -> list[str]:
    found = (on_disk(table.location) / "_delta_log").glob("*.compacted.json")
    return sorted(path.name for path in found)


@pytest.mark.usefixtures("every_tenth")
def test_commits_are_compacted_where_a_checkpoint_does_not_pay_off(lake: lw.Lake) -> None:
    table = worked(lake, 25)
    lake.close()

    assert compacted(table) == [
        f"{1:020d}.{10:020d}.compacted.json",
        f"{11:020d}.{20:020d}.compacted.json",
    ]
    assert not list((on_disk(table.location) / "_delta_log").glob("*.checkpoint.*"))


@pytest.mark.usefixtures("every_tenth")
def test_small_tables_get_checkpoints_and_no_compaction(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "_FILES_PER_COMMIT", 20)
    table = worked(lake, 25)
    lake.close()

    assert compacted(table) == []


def test_net_actions_are_those_that_delta_rs_finds(lake: lw.Lake) -> None:
    table = worked(lake, 40)
    lake.publish()
    first, last = 2, table.version - 3
    path = Path(context_of(lake).storage.uri(compacted_path(head_of(lake).location, first, last)))

    assert write_compacted(context_of(lake), head_of(lake), first, last)

    ours = actions(path)
    path.unlink()
    DeltaTable(table.location).compact_logs(first, last)
    assert ours.keys() == actions(path).keys()
    for key, action in actions(path).items():
        assert ours[key] == action, key


def actions(path: Path) -> dict[tuple[Any, ...], Any]:
    """What a log compaction file says, without what is the same by default."""
    out = {}
    for line in path.read_text().splitlines():
        kind, body = next(iter(json.loads(line).items()))
        vector = body.get("deletionVector") or {}
        key = (kind, body.get("path"), body.get("appId"), vector.get("pathOrInlineDv"))
        body.pop("dataChange", None)
        if isinstance(body.get("stats"), str):
            body["stats"] = json.loads(body["stats"])
        out[key] = {k: v for k, v in body.items() if v not in (None, {}, [])}
    return out


def test_strangers_and_the_doctor_find_nothing_wrong_and_expire_deletes_it(lake: lw.Lake) -> None:
    table = worked(lake, 20)
    assert write_compacted(context_of(lake), head_of(lake), 1, 15)

    assert stranger_rows(table.location) == rows_of(table.to_arrow())
    assert lake.doctor().healthy
    table.checkpoint()
    table.expire(retention="0s", force=True)
    assert compacted(table) == []
    assert stranger_rows(table.location) == rows_of(table.to_arrow())


def test_a_range_that_has_pruned_foreign_or_too_many_actions_is_left_alone(
    lake: lw.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        write_deltalake(tmp_path / "x", pa.table({"n": [n]}), mode="append")
    adopted = lake.adopt("x", tmp_path / "x")
    adopted.append([{"n": 9}])
    table = worked(lake, 10)
    context = context_of(lake)

    assert not write_compacted(context, head_of(lake, "x"), 1, 3)
    monkeypatch.setattr(log_compaction, "_MOST_FILES", 3)
    assert not write_compacted(context, head_of(lake), 1, 10)
    monkeypatch.undo()
    table.vacuum(retention="0s", force=True)
    assert not write_compacted(context, head_of(lake), 1, 10)
    assert compacted(table) == []


@pytest.mark.parametrize("column", ["n int64", "n int64, id bigint generated always as identity"])
def test_a_compacted_log_has_the_names_that_the_table_had(lake: lw.Lake, column: str) -> None:
    table = lake.create("t", column)
    table.alter().add_column("w", "int64").commit()
    table.append([{"n": 1}])
    lake.rename("t", "renamed")

    head = head_of(lake, "renamed")
    assert write_compacted(context_of(lake), head, 1, 2)

    log = on_disk(lake.table("renamed").location) / "_delta_log"
    commits = "".join((log / f"{version:020d}.json").read_text() for version in (1, 2))
    published = [json.loads(line) for line in commits.splitlines()]
    text = Path(log, f"{1:020d}.{2:020d}.compacted.json").read_text()
    whole = [json.loads(line) for line in text.splitlines()]
    assert [a for a in whole if "metaData" in a] == [a for a in published if "metaData" in a][-1:]
