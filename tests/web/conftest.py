"""A service that listens, for a lake with tables of both formats and tokens of every role."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

import lakeward as lw
from tests.support.service import Service, made_lake


@pytest.fixture
def serve() -> Generator[Callable[..., Service]]:
    """Starts a service for a lake; each is stopped at the end."""
    with ExitStack() as stack:

        def start(lake: lw.Lake, **settings: object) -> Service:
            return stack.enter_context(Service(lake, **settings))

        yield start


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """A service that no test of the module changes tables of; everybody needs a token."""
    directory: Path = tmp_path_factory.mktemp("web") / "lake"
    with made_lake(directory) as lake, Service(lake, anonymous=None) as service:
        yield service


@pytest.fixture
def own(tmp_path: Path) -> Generator[Service]:
    """The same, for a test that changes it."""
    with made_lake(tmp_path / "lake") as lake, Service(lake, anonymous=None) as service:
        yield service
