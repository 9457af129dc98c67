"""A role of PostgreSQL that may not write reads the lake, and knows that it only reads."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing

import psycopg
import pytest

import lakeward as lw
from lakeward.errors import ReadOnlyLake
from tests.behaviour.lakes import append, ids
from tests.support.target import LakeTarget

pytestmark = [pytest.mark.postgres, pytest.mark.formats("delta")]


@pytest.fixture(scope="module")
def store() -> str:
    """Only PostgreSQL has roles."""
    return "postgres"


@pytest.fixture
def role(lake_target: LakeTarget) -> Generator[str]:
    """A role that may read every table of the store."""
    with closing(psycopg.connect(lake_target.url, autocommit=True)) as server:
        server.execute("CREATE ROLE analyst LOGIN")
        server.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO analyst")
        yield "analyst"
        server.execute("DROP OWNED BY analyst")
        server.execute("DROP ROLE analyst")


def test_a_role_without_rights_reads_and_is_refused_to_write(
    lake: lw.Lake, lake_target: LakeTarget, role: str
) -> None:
    lake.create("t", {"id": "int64"})
    append(lake, "t", [{"id": 1}])
    url = lake_target.url.replace("postgres@", f"{role}@")

    with lw.open(url, warehouse=lake_target.warehouse) as reader:
        assert reader.read_only
        assert ids(reader, "t") == [1]
        moment = reader.table("t").at().timestamp
        assert reader.snapshot(at=moment).versions == {"t": 1}
        with pytest.raises(ReadOnlyLake, match="the role may not write"):
            append(reader, "t", [{"id": 2}])
        append(lake, "t", [{"id": 2}])
        assert ids(reader, "t") == [1, 2]


def test_a_database_that_only_reads_is_noticed(
    make_lake: Callable[..., lw.Lake], lake_target: LakeTarget
) -> None:
    make_lake().create("t", {"id": "int64"})
    separator = "&" if "?" in lake_target.url else "?"
    options = f"{separator}options=-c%20default_transaction_read_only%3Don"

    with lw.open(lake_target.url + options, warehouse=lake_target.warehouse) as reader:
        with pytest.raises(ReadOnlyLake, match="default_transaction_read_only"):
            reader.create("u", {"id": "int64"})
        assert [t.name for t in reader.tables()] == ["t"]
