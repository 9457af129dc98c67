"""A lake that the tests of a file share, each with tables of its own: a fresh one takes a while."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from contextlib import ExitStack

import pytest

import lakeward as lw
from tests.conftest import STORES

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module", params=STORES)
def shared_lake(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[lw.Lake]:
    """One lake per store for the tests of a file, which each look at tables of their own."""
    warehouse = tmp_path_factory.mktemp("shared")
    with ExitStack() as stack:
        url = str(warehouse)
        if request.param == "postgres":
            server = request.getfixturevalue("postgres_server")
            url = server.url(stack.enter_context(server.database()))
        yield stack.enter_context(lw.open(url, warehouse=warehouse))


@pytest.fixture
def new_name() -> Callable[[], str]:
    """Gives out table names that no other test has."""
    return lambda: f"space.table_{next(_NUMBERS)}"


@pytest.fixture
def name(new_name: Callable[[], str]) -> str:
    """A table name that no other test has."""
    return new_name()
