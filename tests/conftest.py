"""What all tests share: a lake on either store, made fresh for each test."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakeward as lw
from tests.support.target import LakeTarget

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

STORES = ("sqlite", pytest.param("postgres", marks=pytest.mark.postgres))


@pytest.fixture(scope="session")
def postgres_server() -> Generator[Postgres]:
    """A PostgreSQL server that all tests of this process share; do not kill it."""
    from tests.support.postgres import Postgres

    with Postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> Generator[str]:
    """The URL of a fresh, empty PostgreSQL database."""
    with postgres_server.database() as name:
        yield postgres_server.url(name)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    """The kind of store that the test runs on: it runs once on each."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="module")
def table_format() -> str:
    """The format of tables that a test makes without naming one; `behaviour` runs with each."""
    return "delta"


@pytest.fixture
def lake_target(
    store: str, table_format: str, request: pytest.FixtureRequest, tmp_path: Path
) -> LakeTarget:
    """Where a fresh lake is to be made: a store of either kind and a warehouse on disk."""
    directory = tmp_path / "lake"
    url = request.getfixturevalue("postgres_url") if store == "postgres" else str(directory)
    return LakeTarget(url, directory, table_format)


@pytest.fixture
def store_url(lake_target: LakeTarget) -> str:
    """What `lw.open` takes as its target: a directory or a PostgreSQL URL."""
    return lake_target.url


@pytest.fixture
def make_lake(lake_target: LakeTarget) -> Generator[Callable[..., lw.Lake]]:
    """Opens the test's lake as often as it is called; each handle is closed at the end."""
    with ExitStack() as stack:

        def make(**options: Any) -> lw.Lake:
            return stack.enter_context(lake_target.open(**options))

        yield make


@pytest.fixture
def lake(make_lake: Callable[..., lw.Lake]) -> lw.Lake:
    """A fresh, empty lake."""
    return make_lake()
