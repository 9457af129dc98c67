"""Stores that an older Lakeward wrote: opened, they are brought up to date and lose nothing."""

from __future__ import annotations

import re

import pytest

import lakeward as lw
from lakeward.log import migrations, tables
from lakeward.log.migrations import m0001_initial
from lakeward.log.statement import Statement
from tests.behaviour.lakes import append, ids
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
        assert not lake.parts.database.has_table(tables.lock.name)

    with lake_target.open() as lake:
        assert lake.table("t").history() == history
        assert lake.table("t").definition.comment == "kept"
        assert append(lake, "t", {"id": [2]}) == 2
        assert ids(lake, "t") == [1, 2]
        assert lake.create("u", {"id": "int64"}).version == 0
        with lake.parts.database.read() as session:
            for table in tables.ALL:
                names = ", ".join(c.name for c in table.c)
                session.rows(Statement(f"SELECT {names} FROM {table.name}"))


def make_old(lake: lw.Lake) -> None:
    """Put the store back to how the first version would have written it."""
    database = lake.parts.database
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
        migrations.put(session, "schema_version", "1")


def first_tables() -> dict[str, list[str]]:
    """The tables of the first version with their columns, by its own words."""
    out = {}
    for statement in m0001_initial.STATEMENTS:
        found = re.match(r"CREATE TABLE (\w+)", statement)
        if found:
            column = r"^ +([a-z_]+) (?:TEXT|BIGINT|INTEGER|\{identity\})"
            out[found[1]] = re.findall(column, statement, re.MULTILINE)
    return out
