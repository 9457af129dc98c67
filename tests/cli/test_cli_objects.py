"""The command line on a warehouse of an S3 server, reached by the environment alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeward as lw
from tests.cli.console import ask, run, tell
from tests.support.s3 import SECRET, S3Server, on_disk

pytestmark = pytest.mark.s3


@pytest.fixture
def warehouse(s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A warehouse that the environment names."""
    place = f"s3://{bucket}/wh"
    for name, value in s3_server.options().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAKEWARD_WAREHOUSE", place)
    monkeypatch.setenv("LAKEWARD_LAKE", "lake")
    return place


def test_every_command_works_with_the_warehouse_on_s3(warehouse: str) -> None:
    assert ask("init")["warehouse"] == warehouse
    for table_format in ("delta", "iceberg"):
        ask("create", f"sales.{table_format}", "id int64", "--format", table_format)
    with lw.open("lake", warehouse=warehouse) as lake, lake.transaction() as tx:
        tx.append("sales.delta", pa.table({"id": [1, 2, 3]}))
        tx.append("sales.iceberg", pa.table({"id": [1, 2, 3]}))
    for name in ("delta", "iceberg"):
        assert len(ask("read", f"sales.{name}")["rows"]) == 3
        assert ask("show", f"sales.{name}")["location"] == f"{warehouse}/sales/{name}"
        assert ask("history", f"sales.{name}")["versions"][0]["version"] == 1
    assert ask("doctor")["findings"] == []
    ask("publish")
    ask("backup", "copy.db")


def test_a_lost_store_is_rebuilt_from_s3(warehouse: str) -> None:
    ask("init")
    ask("create", "sales.orders", "id int64")
    for path in Path("lake").glob("lakeward.db*"):
        path.unlink()

    assert ask("rebuild")["tables"] == {"sales.orders": 0}


def test_nothing_is_made_where_there_is_nothing_to_rebuild(warehouse: str) -> None:
    answer = run("rebuild", "--json")

    assert answer.code == 3
    assert answer.error["message"] == f"There are no published tables below {warehouse}."
    assert not Path("lake").exists()


def test_a_table_is_adopted_by_its_full_name(warehouse: str) -> None:
    other = ("--lake", "other", "--warehouse", f"{warehouse}-of-others")
    ask("init", *other)
    ask("create", "t", "id int64", *other)
    place = ask("show", "t", *other)["location"]
    ask("init")

    assert ask("adopt", "mine", place, "--take-over")["location"] == place


def test_secrets_of_the_environment_are_never_printed(
    warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")

    answer = run("init", "--json")
    shown = answer.out + answer.err + tell("--version")

    assert answer.code == 8
    assert answer.error["type"] == "StorageError"
    assert SECRET not in shown
    assert not on_disk(warehouse).exists()
