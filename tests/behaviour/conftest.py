"""Each scenario is written once and runs for both table formats, on both stores.

A test that is about one format says so, `@pytest.mark.formats("delta")`, or lies in a folder that
is. Everything else runs twice, so that each case sees both formats and both stores: Delta on one
store and Iceberg on the other; the name of the case decides which. What a store does and what a
format does are independent by their contracts. The folders of `_EVERY_PAIR` are about just that,
and their tests run for all four pairs. Marks say where fewer prove the same:

- `before_the_store`: the cases end before the store or a file is written (bad input, values that
  lose something, violated constraints). All cases run for its first format on SQLite.
- `one_pair`: what is decided depends neither on the store nor on the format (the conflict matrix).
  All cases run for its first format on SQLite.

On the pairs that remain the first case of each test still runs, and so does every case that is
marked `representative`. The nearest of these marks counts: a test's own before its file's.

The warehouse is on S3 in the folders of `_S3`. Outside of `publication`, a test of both formats
runs there for one of them, which its name decides.

The files of `tests/behaviour/by_client.py` run once more, for both formats on SQLite, with all
reads through a service.

`--everywhere` (`make matrix`) runs the full product: all cases on every pair, S3 included.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

import lakeward as lw
from tests.behaviour.by_client import part_of
from tests.support.folders import is_in
from tests.support.target import LakeTarget, s3_target

_HERE: Final = Path(__file__).parent
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
_EVERY_PAIR: Final = ("publication", "reopen")
_REDUCED: Final = ("before_the_store", "one_pair")
_NUMBERS = itertools.count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for each format that it is about, on each store."""
    formats, stores = _formats(metafunc.definition), _stores(metafunc)
    chosen: list[tuple[str, ...]]
    asked = [n for n in ("table_format", "store") if n in metafunc.fixturenames]
    match asked:
        case ["table_format", "store"]:
            chosen = list(itertools.product(formats, stores))
        case ["table_format"]:
            chosen = [(f,) for f in formats]
        case ["store"]:
            chosen = [(s,) for s in stores]
        case _:
            return
    part = part_of(metafunc.definition.path, metafunc.definition.originalname)
    choices = [pytest.param(*c, marks=_marks(c, part)) for c in chosen]
    metafunc.parametrize(asked, choices, indirect=True, scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop the cases that prove again what another pair of format and store has proven."""
    if config.getoption("everywhere"):
        return
    smoked: set[tuple[str, ...]] = set()
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        (kept if _is_needed(item, smoked) else dropped).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)


def _is_needed(item: pytest.Item, smoked: set[tuple[str, ...]]) -> bool:
    if not is_in(item.path, _HERE) or not isinstance(item, pytest.Function):
        return True
    if not hasattr(item, "callspec"):
        return True
    formats = _formats(item)
    table_format = str(item.callspec.params.get("table_format", formats[0]))
    store = str(item.callspec.params.get("store", "sqlite"))
    if store == "service":
        return True
    if store == "s3" and _is_left_out_on_s3(item, table_format, formats):
        return False
    if not any(m.name in _REDUCED for m in item.iter_markers()):
        return store == "s3" or len(formats) == 1 or _is_chosen(item, table_format, store)
    in_full = table_format == formats[0] and store == "sqlite"
    if in_full or item.get_closest_marker("representative") is not None:
        return True
    key = (str(item.path), item.originalname, table_format, store)
    is_first = key not in smoked
    smoked.add(key)
    return is_first


def _is_chosen(item: pytest.Function, table_format: str, store: str) -> bool:
    """Whether a case runs on this pair of a format and a store, one of the two that it runs on."""
    if item.path.parent.name in _EVERY_PAIR or not {"table_format", "store"} <= {
        *item.callspec.params
    }:
        return True
    case = item.originalname + item.callspec.id.removeprefix(f"{table_format}-{store}")
    turned = zlib.crc32(case.encode()) % 2
    return (_FORMATS.index(table_format) + _STORES.index(store)) % 2 == turned


def _is_left_out_on_s3(item: pytest.Function, table_format: str, formats: Sequence[str]) -> bool:
    if len(formats) == 1 or item.path.parent.name == "publication":
        return False
    return table_format != formats[zlib.crc32(item.originalname.encode()) % len(formats)]


def _formats(node: pytest.Item) -> Sequence[str]:
    marked = node.get_closest_marker("formats")
    return _FOLDERS.get(node.path.parent.name, _FORMATS) if marked is None else marked.args


def _stores(metafunc: pytest.Metafunc) -> tuple[str, ...]:
    where = metafunc.definition.path
    on_s3 = where.parent.name in _S3 or metafunc.config.getoption("everywhere")
    if metafunc.definition.get_closest_marker("local") is not None:
        on_s3 = False
    stores = (*_STORES, "s3") if on_s3 else _STORES
    by_client = part_of(where, metafunc.definition.originalname) is not None
    return (*stores, "service") if by_client and "store" in metafunc.fixturenames else stores


def _marks(chosen: tuple[str, ...], part: str | None) -> list[pytest.MarkDecorator]:
    found = [getattr(pytest.mark, s) for s in ("postgres", "s3") if s in chosen]
    return [*found, pytest.mark.full] if "service" in chosen and part == "full" else found


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
            url = server.url(stack.enter_context(server.database(prepared=True)))
        target = LakeTarget(url, warehouse, table_format, through_service=store == "service")
        yield stack.enter_context(target.open())


@pytest.fixture
def new_name() -> Callable[[], str]:
    """Gives out table names that no other test has."""
    return lambda: f"space.table_{next(_NUMBERS)}"


@pytest.fixture
def name(new_name: Callable[[], str]) -> str:
    """A table name that no other test has."""
    return new_name()
