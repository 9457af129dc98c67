"""Stores that an older Lakeward wrote: opened, they are brought up to date and lose nothing."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.log import binding, migrations, tables
from lakeward.log.codec import dumps
from lakeward.log.migrations import MIGRATIONS, after, m0001_initial
from lakeward.log.statement import Statement
from lakeward.model.clock import now_ms
from lakeward.model.types import Primitive
from lakeward.model.values import order_key, width_level
from tests.behaviour.lakes import append, ids
from tests.support.inside import context_of
from tests.support.postgres import Postgres
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
def test_drops_and_tags_without_a_position_go_by_their_time(lake_target: LakeTarget) -> None:
    with lake_target.open() as lake:
        for name in ("dropped", "kept", "late"):
            lake.create(name, {"id": "int64"})
        before = _done(lake)
        lake.tag("before")
        _let_the_millisecond_pass()
        lake.drop("dropped")
        _let_the_millisecond_pass()
        after_it = _done(lake)
        _let_the_millisecond_pass()
        lake.drop("late")
        with context_of(lake).database.write() as session:
            if session.dialect == "postgresql":
                # Drops took no position.
                session.script(
                    """SELECT setval('lakeward_position',
                        (SELECT max(position) FROM lakeward_commit))"""
                )
            session.script("DROP INDEX lakeward_head_dropped")
            session.script("ALTER TABLE lakeward_head DROP COLUMN dropped_position")
            session.script("ALTER TABLE lakeward_tag DROP COLUMN position")
            session.script("DROP TABLE lakeward_query")
            session.script("DROP INDEX lakeward_commit_rename")
            session.script("DROP INDEX lakeward_file_vector")
            binding.put_setting(session, "schema_version", "26")

    with lake_target.open() as lake:
        assert dict(lake.snapshot(at=before).versions) == {"dropped": 0, "kept": 1, "late": 0}
        assert dict(lake.snapshot(at=after_it).versions) == {"kept": 2, "late": 0}
        assert dict(lake.snapshot(at="before").versions) == {"dropped": 0, "kept": 1, "late": 0}
        assert [c.transaction_id for c in lake.changes(since="before")] == [after_it]
        lake.tag("again", at="before")
        assert [c.transaction_id for c in lake.changes(since="again")] == [after_it]
        assert lake.tag("after").versions == {"kept": 2}
        last = _done(lake)
        assert [c.transaction_id for c in lake.changes(since="after")] == [last]


def _done(lake: lw.Lake) -> str:
    return lake.table("kept").append([{"id": 1}]).transaction_id


def _let_the_millisecond_pass() -> None:
    now = now_ms()
    while now_ms() == now:
        time.sleep(0.0005)


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
        session.script("DROP INDEX lakeward_commit_rename")
        session.script("DROP INDEX lakeward_file_vector")
        session.script("ALTER TABLE lakeward_commit DROP COLUMN position")
        session.script("ALTER TABLE lakeward_head DROP COLUMN policy_id")
        session.script("DROP INDEX lakeward_head_dropped")
        session.script("ALTER TABLE lakeward_head DROP COLUMN dropped_position")
        for migration in after(8):
            for name in re.findall(r"CREATE TABLE (\w+)", " ".join(migration.STATEMENTS)):
                session.script(f"DROP TABLE {name}")
        binding.put_setting(session, "schema_version", "8")


@pytest.mark.postgres
@pytest.mark.parametrize("column", ["lakeward_file.path", "lakeward_head.location"])
def test_columns_that_are_searched_by_ranges_of_text_are_compared_by_bytes(
    postgres_server: Postgres, column: str
) -> None:
    table, _, name = column.partition(".")
    with (
        postgres_server.database(prepared=True) as database,
        psycopg.connect(postgres_server.url(database)) as connection,
    ):
        asked = """SELECT collation_name FROM information_schema.columns
            WHERE table_name = %s AND column_name = %s"""
        assert connection.execute(asked, (table, name)).fetchall() == [("C",)]


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
