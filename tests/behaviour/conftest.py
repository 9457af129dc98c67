"""Each scenario is written once and runs for both table formats, on both stores.

A test that is about one format says so, `@pytest.mark.formats("delta")`, or lies in a folder that
is. Where the store has no part in what a format does, `@pytest.mark.apart` runs the other format on
SQLite alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Final

import pytest

import lakeward as lw
from tests.support.target import LakeTarget, s3_target

_FORMATS: Final = ("delta", "iceberg")
_FOLDERS: Final = {"adoption": ("delta",), "open_tables": ("delta",), "iceberg": ("iceberg",)}
_STORES: Final = ("sqlite", "postgres")
_S3: Final = (
    "adoption",
    "branches",
    "iceberg",
    "open_tables",
    "overwrite_and_delete",
    "publication",
    "reopen",
)
"""Folders whose tests always run with the warehouse on S3, too; the others with --everywhere."""
_NUMBERS = itertools.count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for each format that it is about, on each store."""
    marked = metafunc.definition.get_closest_marker("formats")
    usual = _FOLDERS.get(metafunc.definition.path.parent.name, _FORMATS)
    formats = usual if marked is None else marked.args
    apart = metafunc.definition.get_closest_marker("apart") is not None
    stores = _stores(metafunc)
    chosen: list[tuple[str, ...]]
    asked = [n for n in ("table_format", "store") if n in metafunc.fixturenames]
    match asked:
        case ["table_format", "store"]:
            pairs = itertools.product(formats, stores)
            chosen = [p for p in pairs if not (apart and p == ("iceberg", "postgres"))]
        case ["table_format"]:
            chosen = [(f,) for f in formats]
        case ["store"]:
            chosen = [(s,) for s in stores]
        case _:
            return
    choices = [pytest.param(*c, marks=_marks(c)) for c in chosen]
    metafunc.parametrize(asked, choices, indirect=True, scope="module")


def _stores(metafunc: pytest.Metafunc) -> tuple[str, ...]:
    where = metafunc.definition.path
    on_s3 = where.parent.name in _S3 or metafunc.config.getoption("everywhere")
    if metafunc.definition.get_closest_marker("local") is not None:
        on_s3 = False
    return (*_STORES, "s3") if on_s3 else _STORES


def _marks(chosen: tuple[str, ...]) -> list[pytest.MarkDecorator]:
    return [getattr(pytest.mark, s) for s in ("postgres", "s3") if s in chosen]


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> str:
    """The kind of store that the test runs on."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="module")
def table_format(request: pytest.FixtureRequest) -> str:
    """The format of tables that the test makes without naming one."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="module")
def shared_lake(
    store: str,
    table_format: str,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[lw.Lake]:
    """A lake for the tests of a file, which each look at tables of their own.

    A fresh one takes a while.
    """
    warehouse = tmp_path_factory.mktemp("shared")
    with ExitStack() as stack:
        if store == "s3":
            server = request.getfixturevalue("s3_server")
            environment = stack.enter_context(pytest.MonkeyPatch.context())
            for name, value in server.options().items():
                environment.setenv(name, value)
            yield stack.enter_context(s3_target(server, warehouse, table_format).open())
            return
        url = str(warehouse)
        if store == "postgres":
            server = request.getfixturevalue("postgres_server")
            url = server.url(stack.enter_context(server.database()))
        yield stack.enter_context(LakeTarget(url, warehouse, table_format).open())


@pytest.fixture
def new_name() -> Callable[[], str]:
    """Gives out table names that no other test has."""
    return lambda: f"space.table_{next(_NUMBERS)}"


@pytest.fixture
def name(new_name: Callable[[], str]) -> str:
    """A table name that no other test has."""
    return new_name()
