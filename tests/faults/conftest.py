"""A lake whose connection to its store may lose things, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.log.drivers.postgres import PostgresDatabase
from lakeward.log.drivers.sqlite import SqliteDatabase
from tests.support.folders import is_in
from tests.support.losses import Losses, LossyProxy, lossy_sqlite
from tests.support.sparks import started
from tests.support.target import LakeTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.postgres import Postgres


_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the lakes of this folder make their stores themselves, faults included."""
    for item in items:
        if is_in(item.path, _HERE):
            item.add_marker(pytest.mark.empty_store)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Generator[SparkSession]:
    """A session for any lake."""
    with started(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def losses() -> Losses:
    return Losses()


@pytest.fixture
def lossy_target(
    store: str,
    lake_target: LakeTarget,
    losses: Losses,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Generator[LakeTarget]:
    """The lake through a connection that loses what `losses` says."""
    if store == "sqlite":
        lossy_sqlite(monkeypatch, losses)
        yield lake_target
        return
    server: Postgres = request.getfixturevalue("postgres_server")
    database = lake_target.url.split("?")[0].rpartition("/")[2]
    with LossyProxy(server.socket, losses) as proxy:
        yield LakeTarget(proxy.url(database), lake_target.warehouse)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that give up soon."""
    monkeypatch.setattr(PostgresDatabase, "patience_seconds", 0.5)
    monkeypatch.setattr(SqliteDatabase, "patience_seconds", 0.5)
