"""pyiceberg beside a lake: one on either store, or one on SQLite that the tests of a file share."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

import lakeward as lw
from tests.behaviour.iceberg.strangers import Stranger
from tests.support.iceberg import stranger_catalog


@pytest.fixture
def stranger(lake: lw.Lake) -> Generator[Stranger]:
    """pyiceberg on the catalog of a lake that is the test's own, on either store."""
    with Stranger(stranger_catalog(lake)) as found:
        yield found


@pytest.fixture(scope="module")
def one_lake(tmp_path_factory: pytest.TempPathFactory) -> Generator[lw.Lake]:
    """A lake for the tests of a file, for which the store does not matter."""
    directory: Path = tmp_path_factory.mktemp("lake")
    with lw.open(directory) as lake:
        yield lake


@pytest.fixture(scope="module")
def one_stranger(one_lake: lw.Lake) -> Generator[Stranger]:
    """pyiceberg on the catalog of that lake."""
    with Stranger(stranger_catalog(one_lake)) as found:
        yield found
