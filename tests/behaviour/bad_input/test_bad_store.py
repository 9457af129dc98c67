"""Stores that are damaged, too new, or no stores at all."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.errors import (
    LakewardError,
    StoreCorrupt,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
)
from lakeward.log.statement import Statement
from tests.behaviour.lakes import picture
from tests.support.inside import context_of
from tests.support.tables import table_of
from tests.support.target import LakeTarget

_TABLE = table_of(id="int64").rows(*({"id": [number]} for number in range(20)))


def _run(target: LakeTarget, sql: str) -> None:
    """Do something to the store behind everybody's back."""
    with target.open() as lake, context_of(lake).database.write() as session:
        session.run(Statement(sql))


def _bytes(directory: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(directory)): p.read_bytes()
        for p in directory.rglob("*")
        if p.is_file() and ".lakeward" not in p.parts and not p.name.endswith(("-shm", "-wal"))
    }


def test_a_store_of_a_newer_lakeward_is_left_alone(lake_target: LakeTarget) -> None:
    _TABLE.make_at(lake_target)
    with lake_target.open() as lake:
        with context_of(lake).database.write() as session:
            session.run(
                Statement("UPDATE lakeward_store SET value = '999' WHERE key = 'schema_version'")
            )
        before = picture(lake)

        with pytest.raises(StoreTooNew) as caught:
            lake_target.open()

        assert caught.value.store_version == 999
        assert "Upgrade" in str(caught.value.hint)
        assert picture(lake) == before


def test_a_store_with_a_senseless_version_is_left_alone(lake_target: LakeTarget) -> None:
    _TABLE.make_at(lake_target)
    _run(lake_target, "UPDATE lakeward_store SET value = 'x' WHERE key = 'schema_version'")

    with pytest.raises(StoreCorrupt) as caught:
        lake_target.open()
    assert caught.value.hint


@pytest.mark.parametrize("table", ["lakeward_head", "lakeward_commit", "lakeward_file"])
def test_a_store_that_lost_a_table_says_so(lake_target: LakeTarget, table: str) -> None:
    _TABLE.make_at(lake_target)
    _run(lake_target, f"DROP TABLE {table}")

    with pytest.raises(StoreCorrupt) as caught:
        _use(lake_target)
    assert caught.value.hint


def _use(target: LakeTarget) -> None:
    with target.open() as lake:
        lake.table("t").to_arrow()
        lake.table("t").history()


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lakeward.db").write_bytes(b"this is not a database, not even nearly" * 100)
    before = _bytes(tmp_path)

    with pytest.raises(StoreCorrupt) as caught:
        lw.open(tmp_path)

    assert "lakeward.db" in str(caught.value)
    assert caught.value.hint
    assert _bytes(tmp_path) == before


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_a_truncated_store_says_so(tmp_path: Path, kept: float) -> None:
    target = LakeTarget(str(tmp_path), tmp_path)
    _TABLE.make_at(target)
    store = tmp_path / "lakeward.db"
    whole = store.read_bytes()
    store.write_bytes(whole[: int(len(whole) * kept)])
    before = _bytes(tmp_path)

    with pytest.raises(StoreCorrupt) as caught:
        _use(target)

    assert caught.value.hint
    assert _bytes(tmp_path) == before


def test_a_store_full_of_noise_says_so(tmp_path: Path) -> None:
    target = LakeTarget(str(tmp_path), tmp_path)
    _TABLE.make_at(target)
    store = tmp_path / "lakeward.db"
    whole = bytearray(store.read_bytes())
    for start in range(4096, len(whole), 4096):
        whole[start : start + 64] = b"\xa5" * 64
    store.write_bytes(whole)

    with pytest.raises(StoreCorrupt):
        _use(target)


def test_a_database_of_somebody_else_becomes_no_lake_when_it_must_not(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "lakeward.db") as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()

    with pytest.raises(LakewardError, match="no lake"):
        lw.open(tmp_path, create=False)


def test_a_file_in_the_place_of_the_lake_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")

    with pytest.raises(StoreError) as caught:
        lw.open(tmp_path / "file")

    assert str(tmp_path / "file") in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_directory_in_the_place_of_the_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lakeward.db").mkdir()

    with pytest.raises(StoreError):
        lw.open(tmp_path)


def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    url = f"postgresql://nobody:secret-word@/nothing?host={tmp_path}&connect_timeout=1"

    with pytest.raises(StoreUnavailable) as caught:
        lw.open(url, warehouse=tmp_path / "lake")

    assert caught.value.retryable
    assert "secret-word" not in str(caught.value)
    assert "secret-word" not in repr(caught.value.facts)
    assert not (tmp_path / "lake").exists()


@pytest.mark.postgres
def test_a_database_that_is_not_there_is_named(postgres_url: str, tmp_path: Path) -> None:
    base, _, query = postgres_url.partition("?")
    url = f"{base}_missing?{query}"

    with pytest.raises(StoreUnavailable, match="_missing"):
        lw.open(url, warehouse=tmp_path / "lake")
