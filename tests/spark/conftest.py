"""A Spark for many tests: starting it and warming it up takes longer than most of them.

The files go to two workers (`--dist loadgroup`), each test with lakes of its own, while the others
run what starts processes itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.folders import is_in
from tests.support.sparks import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.postgres import Postgres

_HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder, before xdist looks at the groups."""
    for item in items:
        if is_in(item.path, _HERE):
            item.add_marker(pytest.mark.spark)
            if not _is_always_run(item):
                item.add_marker(pytest.mark.full)
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                # The longest takes one minute alone, and ten beside ten other processes.
                item.add_marker(pytest.mark.timeout(900))
            shares = "spark" in getattr(item, "fixturenames", ())
            half = zlib.crc32(item.path.name.encode()) % 2
            group = f"spark {half}" if shares else f"spark-{item.path.stem}"
            item.add_marker(pytest.mark.xdist_group(group))
            # pyspark leaves the sockets that it collects rows from to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket"))
            item.add_marker(pytest.mark.filterwarnings("ignore:Exception ignored in. <socket"))


def _is_always_run(item: pytest.Item) -> bool:
    """Whether a case runs in `make test`: one that `always` leaves out runs in `make faults`."""
    marker = item.get_closest_marker("always")
    return marker is None or any(part in item.name for part in marker.args)


@pytest.fixture(scope="session")
def postgres_on_tcp() -> Generator[Postgres]:
    """A PostgreSQL server that Java can reach."""
    from tests.support.postgres import Postgres

    with Postgres(tcp=True) as server:
        yield server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Generator[SparkSession]:
    """A session for any lake: it has the lake's catalog of none of them."""
    with started(tmp_path_factory.mktemp("spark")) as session:
        yield session
