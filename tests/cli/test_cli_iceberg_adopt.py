"""Iceberg tables from the command line: adopted, examined, mended, rebuilt, moved."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import lakeward as lw
from tests.behaviour.iceberg.theirs import eventful, their_catalog
from tests.behaviour.lakes import append
from tests.cli.console import ask, run, tell


@pytest.fixture
def ice(tmp_path: Path) -> Path:
    """A lake with a table of each format, written in one transaction."""
    place = tmp_path / "ice"
    with lw.open(place) as lake:
        lake.create("sales.orders", {"id": "int64"}, format="iceberg")
        lake.create("plain", {"id": "int64"})
        with lake.transaction() as tx:
            tx.append("sales.orders", {"id": [1, 2]})
            tx.append("plain", {"id": [1]})
        append(lake, "sales.orders", {"id": [3]})
    return place


def _orders(place: Path | str, *more: str | Path) -> list[int]:
    rows = ask("read", "sales.orders", "--lake", place, *more)["rows"]
    return sorted(row["id"] for row in rows)


def test_adopt_takes_an_iceberg_table_by_directory_file_or_name(ice: Path, tmp_path: Path) -> None:
    with their_catalog(tmp_path / "theirs") as theirs:
        made, expected = eventful(theirs, "shop.orders")
        other, _ = eventful(theirs, "shop.others")
        eventful(theirs, "shop.third")
    directory = made.location().removeprefix("file://")

    answer = ask("adopt", "one", directory, "--lake", ice)
    assert (answer["format"], answer["versions"], answer["version"]) == ("iceberg", 5, 4)
    assert "through the lake's catalog" in tell(
        "adopt", "two", other.metadata_location.removeprefix("file://"), "--lake", ice
    )
    uri = f"uri=sqlite:///{tmp_path}/theirs/catalog.db"
    catalog = ("--catalog", "type=sql", "--catalog", uri, "--catalog", "name=theirs")
    third = ask("adopt", "three", "shop.third", *catalog, "--lake", ice)
    assert third["rows"] == len(expected[-1])


def test_adopt_takes_what_others_made_in_the_lakes_catalog(ice: Path) -> None:
    catalog = SqlCatalog("lakeward", uri=f"sqlite:///{ice}/lakeward.db", warehouse=str(ice))
    catalog.create_table("sales.theirs", pa.schema([("id", pa.int64())]))
    catalog.engine.dispose()

    findings = ask("doctor", "--lake", ice)["findings"]
    assert [f["code"] for f in findings] == ["not-adopted"]
    assert ask("adopt", "sales.theirs", "--lake", ice)["version"] == 0
    assert ask("doctor", "--lake", ice)["findings"] == []
    assert run("adopt", "sales.nothing", "--lake", ice).code == 3


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_no_secret_of_a_catalog_is_printed(ice: Path, form: tuple[str, ...]) -> None:
    secret = "hunter2"
    uri = f"uri=postgresql+psycopg://me:{secret}@localhost:1/none"
    for given in (
        ("--catalog", "type=sql", "--catalog", uri),
        ("--catalog", "type=unheard", "--catalog", f"token={secret}"),
        ("--catalog", secret),
    ):
        answer = run("adopt", "t", "a.b", *given, "--lake", ice, *form)
        assert answer.code != 0
        assert secret not in answer.out + answer.err


def test_doctor_enters_a_table_again(ice: Path) -> None:
    catalog = SqlCatalog("lakeward", uri=f"sqlite:///{ice}/lakeward.db")
    catalog.drop_table("sales.orders")
    catalog.engine.dispose()
    assert run("read", "sales.orders", "--lake", ice).code == 10

    assert run("doctor", "--lake", ice).code == 12
    assert "sales.orders entered into the Iceberg catalog again" in tell(
        "doctor", "--fix", "--lake", ice
    )
    assert _orders(ice) == [1, 2, 3]


def test_a_lake_of_iceberg_tables_alone_is_rebuilt(tmp_path: Path) -> None:
    place = tmp_path / "ice"
    with lw.open(place) as lake:
        lake.create("sales.orders", {"id": "int64"}, format="iceberg")
        append(lake, "sales.orders", {"id": [1]})
    for path in place.glob("lakeward.db*"):
        path.unlink()

    assert ask("rebuild", "--lake", place)["tables"] == {"sales.orders": 1}
    assert _orders(place) == [1]


def test_a_backup_put_back_is_the_lake_with_its_catalog(ice: Path, tmp_path: Path) -> None:
    rows = ask("backup", tmp_path / "copy.db", "--lake", ice)["rows"]
    assert rows["iceberg_tables"] == 1
    with lw.open(ice) as lake:
        append(lake, "sales.orders", {"id": [4]})
    for path in ice.glob("lakeward.db*"):
        path.unlink()
    (tmp_path / "copy.db").rename(ice / "lakeward.db")

    # What was committed since is not in the copy: the catalog is as old as the log.
    assert _orders(ice) == [1, 2, 3]
    assert run("doctor", "--lake", ice).code == 0
    with lw.open(ice) as lake:
        append(lake, "sales.orders", {"id": [5]})
    assert _orders(ice) == [1, 2, 3, 5]


@pytest.mark.postgres
def test_a_lake_of_both_formats_moves_to_postgresql_and_back(
    ice: Path, tmp_path: Path, postgres_url: str
) -> None:
    there = (tmp_path / "there.zip", tmp_path / "back.zip")
    ask("store", "export", there[0], "--lake", ice)
    server = ("--lake", postgres_url, "--warehouse", ice)
    (ice / "lakeward.db").rename(tmp_path / "old.db")
    ask("store", "import", there[0], *server)
    assert _orders(postgres_url, "--warehouse", ice) == [1, 2, 3]
    with lw.open(postgres_url, warehouse=ice) as lake:
        append(lake, "sales.orders", {"id": [4]})
    url = postgres_url.replace("postgresql://", "postgresql+psycopg://", 1)
    catalog = SqlCatalog("lakeward", uri=url)
    catalog.load_table("sales.orders").append(pa.table({"id": [5]}))
    catalog.engine.dispose()
    assert _orders(postgres_url, "--warehouse", ice) == [1, 2, 3, 4, 5]

    ask("store", "export", there[1], *server)
    for path in ice.glob("lakeward.db*"):
        path.unlink()
    ask("store", "import", there[1], "--lake", ice)
    assert _orders(ice) == [1, 2, 3, 4, 5]
    assert ask("doctor", "--lake", ice)["findings"] == []
