"""One Spark for all tests of a worker: starting it takes longer than most of them.

The tests of a file go to one worker (`--dist loadgroup`), each with lakes of its own.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.postgres import Postgres

_HERE = Path(__file__).parent
# Jars are fetched once into the project, as `make jars` does.
os.environ.setdefault("LAKEWARD_CACHE", str(_HERE.parents[1] / ".jars"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.spark)
            if not _is_always_run(item):
                item.add_marker(pytest.mark.full)
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                # The longest takes one minute alone, and ten beside ten other processes.
                item.add_marker(pytest.mark.timeout(900))
            item.add_marker(pytest.mark.xdist_group(f"spark-{item.path.stem}"))
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
    import lakeward as lw
    from lakeward.spark import session
    from tests.support.sparks import CONF

    place = tmp_path_factory.mktemp("spark")
    with lw.open(place / "lake") as lake:
        started = session(
            lake,
            master="local[2]",
            **{
                **CONF,
                "spark.sql.warehouse.dir": str(place / "warehouse"),
                "spark.local.dir": str(place / "local"),
            },
        )
        yield started
        started.stop()
