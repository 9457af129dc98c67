"""Stores that an older Lakeward wrote: opened, they are brought up to date and lose nothing."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.log import binding, migrations, tables
from lakeward.log.codec import dumps
from lakeward.log.migrations import MIGRATIONS, after, m0001_initial
from lakeward.log.statement import Statement
from lakeward.model.types import Primitive
from lakeward.model.values import order_key, width_level
from tests.behaviour.lakes import append, ids
from tests.support.inside import context_of
from tests.support.target import LakeTarget


@pytest.mark.formats("delta")
def test_a_store_of_the_first_version_opens_keeps_its_rows_and_works(
    lake_target: LakeTarget,
) -> None:
    with lake_target.open() as lake:
        lake.create("t", {"id": "int64"}, comment="kept")
        append(lake, "t", {"id": [1]})
        history = lake.table("t").history()
        make_old(lake)
        assert not context_of(lake).database.has_table(tables.lock.name)

    with lake_target.open() as lake:
        assert lake.table("t").history() == history
        assert lake.table("t").definition.comment == "kept"
        assert append(lake, "t", {"id": [2]}) == 2
        assert ids(lake, "t") == [1, 2]
        assert lake.create("u", {"id": "int64"}).version == 0
        with context_of(lake).database.read() as session:
            for table in tables.ALL:
                names = ", ".join(table.columns)
                session.rows(Statement(f"SELECT {names} FROM {table.name}"))


@pytest.mark.formats("delta")
def test_rows_with_nan_in_a_table_adopted_by_an_older_version_are_found(
    lake_target: LakeTarget, tmp_path: Path
) -> None:
    for values in ([1.0, math.nan], [3.0, 4.0]):
        write_deltalake(tmp_path / "t", pa.table({"x": values}), mode="append")
    with lake_target.open() as lake:
        lake.adopt("t", tmp_path / "t", guard=False)
        lake.create("own", {"x": "double"})
        append(lake, "own", {"x": [1.0, 2.0]})
        _with_upper_bounds(lake, "t", {0: (1.0, 1.0), 1: (3.0, 4.0)})

    with lake_target.open() as lake:
        assert repr(lake.table("t").to_arrow(where="x > 2")["x"].to_pylist()) == "[nan, 3.0, 4.0]"
        assert len(lake.table("t").files(where="x < 2")) == 1
        assert len(lake.table("own").files(where="x > 2")) == 0
        found = lake.doctor(tables=["t", "own"]).findings
        assert [f for f in found if f.code == "statistics"] == []


def _with_upper_bounds(lake: lw.Lake, name: str, bounds: dict[int, tuple[float, float]]) -> None:
    """Give files, by the version that added them, the bounds that version 8 of the store kept."""
    table_id = lake.table(name).at().log_head.table_id
    with context_of(lake).database.write() as session:
        for version, (low, high) in bounds.items():
            stats = {"min": {"1": low}, "max": {"1": high}, "nulls": {"1": 0}}
            keys = [order_key(Primitive("double"), value) for value in (low, high)]
            known = {"table_id": table_id, "added": version}
            session.run(
                Statement(
                    """UPDATE lakeward_file SET stats = :stats
                        WHERE table_id = :table_id AND added_version = :added"""
                ),
                {**known, "stats": dumps(stats)},
            )
            session.run(
                Statement(
                    """UPDATE lakeward_file_stat SET level = :level, min_key = :low, max_key = :high
                        WHERE table_id = :table_id AND added_version = :added"""
                ),
                {**known, "level": width_level(*keys), "low": keys[0], "high": keys[1]},
            )
        session.script("ALTER TABLE lakeward_cursor DROP COLUMN reader")
        session.script("DROP INDEX lakeward_commit_position")
        session.script("ALTER TABLE lakeward_commit DROP COLUMN position")
        session.script("ALTER TABLE lakeward_head DROP COLUMN policy_id")
        for migration in after(8):
            for name in re.findall(r"CREATE TABLE (\w+)", " ".join(migration.STATEMENTS)):
                session.script(f"DROP TABLE {name}")
        binding.put_setting(session, "schema_version", "8")


def test_every_migration_is_listed_at_its_number() -> None:
    found = sorted(p.stem for p in Path(str(migrations.__file__)).parent.glob("m0*.py"))

    assert list(MIGRATIONS) == found
    assert [int(name[1:5]) for name in found] == list(range(1, len(found) + 1))


def make_old(lake: lw.Lake) -> None:
    """Put the store back to how the first version would have written it."""
    database = context_of(lake).database
    with database.write() as session:
        kept = {}
        for name, columns in first_tables().items():
            kept[name] = session.rows(Statement(f"SELECT {', '.join(columns)} FROM {name}"))
        for table in tables.ALL:
            if table is not tables.store:
                session.script(f"DROP TABLE {table.name}")
        for statement in m0001_initial.STATEMENTS:
            session.script(database.dialect_ddl(statement))
        for name, columns in first_tables().items():
            session.bulk(name, columns, kept[name])
        database.after_import(session)
        binding.put_setting(session, "schema_version", "1")


def first_tables() -> dict[str, list[str]]:
    """The tables of the first version with their columns, by its own words."""
    out = {}
    for statement in m0001_initial.STATEMENTS:
        found = re.match(r"CREATE TABLE (\w+)", statement)
        if found:
            column = r"^ +([a-z_]+) (?:TEXT|BIGINT|INTEGER|\{identity\})"
            out[found[1]] = re.findall(column, statement, re.MULTILINE)
    return out
