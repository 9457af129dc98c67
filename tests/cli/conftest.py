"""A lake that the tests of the command line look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.console import make_shop


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that no test changes."""
    return make_shop(tmp_path_factory.mktemp("cli") / "lake")


@pytest.fixture
def own_shop(tmp_path: Path) -> Path:
    """The same lake, for a test that changes it."""
    return make_shop(tmp_path / "lake")


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Which lake, and how it looks, is said by the test alone."""
    for name in ("LAKEWARD_LAKE", "LAKEWARD_WAREHOUSE", "LAKEWARD_DEBUG", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
