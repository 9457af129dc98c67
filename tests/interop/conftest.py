"""Strangers who read our tables, each under the name of a parameter."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

import lakeward as lw
from tests.interop.readers import PEERS_PYTHON, DeltaRs, DuckDb, Polars, Reader

_NUMBERS = itertools.count(1)


@pytest.fixture
def name() -> str:
    """A table name that no other test has."""
    return f"space.table_{next(_NUMBERS)}"


@pytest.fixture(scope="session")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> Generator[DuckDb]:
    """DuckDB, started once."""
    if not PEERS_PYTHON.exists():
        pytest.skip("run `make peers` for DuckDB")
    with DuckDb(tmp_path_factory.mktemp("duckdb")) as process:
        yield process


@pytest.fixture(
    params=["delta-rs", "polars", pytest.param("duckdb", marks=pytest.mark.peers)],
)
def stranger(request: pytest.FixtureRequest) -> Reader:
    """A reader that is not ours: the test runs once with each."""
    match request.param:
        case "delta-rs":
            return DeltaRs()
        case "polars":
            return Polars()
        case _:
            found: DuckDb = request.getfixturevalue("duckdb")
            return found


@pytest.fixture(scope="module")
def own_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lw.Lake]:
    """A lake for the tables of one file; what is published does not depend on the store."""
    directory: Path = tmp_path_factory.mktemp("lake")
    with lw.open(directory) as lake:
        yield lake
