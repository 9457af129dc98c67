"""What all tests share: a lake on either store, made fresh for each test."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import lakeward as lw
from lakeward.log.drivers.nearby import STORE_FILE
from tests.support.folders import is_in
from tests.support.target import LakeTarget, s3_target

if TYPE_CHECKING:
    from tests.support.postgres import Postgres
    from tests.support.s3 import S3Server

STORES = ("sqlite", pytest.param("postgres", marks=pytest.mark.postgres))
_SPARK: Final = Path(__file__).parent / "spark"
_CHOICES: Final = ("store", "table_format")
"""Fixtures of a file that say where a test runs, and make nothing."""
_MEMORY: Final = Path("/dev/shm")
_MEMORY_BYTES: Final = 6 * 2**30
"""What must be free there: a whole run leaves less than half of it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the project's own."""
    parser.addoption(
        "--everywhere",
        action="store_true",
        help="run all of the behaviour suite for every format and store, on an S3 server too",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary files in memory where there is room and the user has not said otherwise.

    Most tests make a lake and sync every file of it, which takes a quarter of their time on a disk.
    """
    if hasattr(config, "workerinput") or "TMPDIR" in os.environ or not _MEMORY.is_dir():
        return
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Begin with the tests that take longest, so that no worker is left alone with one at the end.

    Those of a file stay together and in their order, and on one worker where they share a fixture
    of the file: each worker would make it again. Keep the groups of xdist: it adds a group to the
    attribute that held a test's id before pytest 9.2, so that `--dist loadgroup` had no effect.
    """
    for item in items:
        if _shares_with_its_file(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}/{item.path.stem}"))
    yield
    for item in items:
        grouped = vars(item).get("_nodeid")
        if grouped is not None:
            item._id = type(item.id).parse(grouped)

    def rank(item: pytest.Item) -> int:
        if item.get_closest_marker("spark"):
            return 0
        return 1 if item.get_closest_marker("slow") or item.get_closest_marker("crash") else 2

    ranks: dict[Path, int] = {}
    for item in items:
        ranks[item.path] = min(rank(item), ranks.get(item.path, 2))
    items.sort(key=lambda item: ranks[item.path])


def _shares_with_its_file(item: pytest.Item) -> bool:
    """Whether a test takes a fixture that is made once for its file."""
    if is_in(item.path, _SPARK) or not isinstance(item, pytest.Function):
        return False
    found = item._fixtureinfo.name2fixturedefs
    return any(
        found[name][-1].scope == "module"
        for name in item.fixturenames
        if name in found and name not in _CHOICES
    )


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Generator[Postgres]:
    """A PostgreSQL server that all tests of this process share; do not kill it."""
    from tests.support.postgres import Postgres

    try:
        server = Postgres()
    except Exception:
        # Hundreds of tests need it: end the run, in other workers too, and say why once.
        request.session.shouldstop = "PostgreSQL does not start; the error above says why"
        raise
    with server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> Generator[str]:
    """The URL of a fresh, empty PostgreSQL database."""
    with postgres_server.database() as name:
        yield postgres_server.url(name)


@pytest.fixture
def prepared_postgres_url(postgres_server: Postgres) -> Generator[str]:
    """The URL of a fresh PostgreSQL database that has the empty tables of a store already."""
    with postgres_server.database(prepared=True) as name:
        yield postgres_server.url(name)


@pytest.fixture(scope="session")
def s3_server() -> Generator[S3Server]:
    """An S3 server that all tests of this process share; do not kill it."""
    from tests.support.s3 import S3Server
    from tests.support.servers import Unobtainable

    try:
        server = S3Server()
    except Unobtainable as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """A fresh, empty bucket on the S3 server."""
    return s3_server.bucket()


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
    """Where a fresh lake is to be made: a store of either kind and a warehouse.

    The store `s3` is a SQLite store whose warehouse is on an S3 server; the store `service` is one
    that is read through a service.
    """
    directory = tmp_path / "lake"
    if store == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        environment: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
        for name, value in server.options().items():
            # Strangers find their way by it.
            environment.setenv(name, value)
        return s3_target(server, tmp_path, table_format)
    if store == "postgres":
        is_empty = request.node.get_closest_marker("empty_store") is not None
        url = request.getfixturevalue("postgres_url" if is_empty else "prepared_postgres_url")
        return LakeTarget(url, directory, table_format)
    through = store == "service"
    return LakeTarget(str(directory), directory, table_format, through_service=through)


@pytest.fixture
def store_url(lake_target: LakeTarget) -> str:
    """What `lw.open` takes as its target: a directory or a PostgreSQL URL."""
    return lake_target.url


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The SQLite file of a new store: a copy takes a fifth of the time of making its tables."""
    from lakeward.log.drivers.connect import connect

    directory = tmp_path_factory.mktemp("empty")
    connect(directory).close()
    return (directory / STORE_FILE).read_bytes()


@pytest.fixture
def make_lake(
    lake_target: LakeTarget, empty_sqlite: bytes, request: pytest.FixtureRequest
) -> Generator[Callable[..., lw.Lake]]:
    """Opens the test's lake as often as it is called; each handle is closed at the end."""
    is_empty = request.node.get_closest_marker("empty_store") is not None
    with ExitStack() as stack:

        def make(**options: Any) -> lw.Lake:
            directory = Path(lake_target.url)
            if not (is_empty or options or lake_target.is_postgres or directory.exists()):
                directory.mkdir(parents=True)
                (directory / STORE_FILE).write_bytes(empty_sqlite)
            return stack.enter_context(lake_target.open(**options))

        yield make


@pytest.fixture
def lake(make_lake: Callable[..., lw.Lake]) -> lw.Lake:
    """A fresh, empty lake."""
    return make_lake()
