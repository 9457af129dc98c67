"""A warehouse, and an empty log in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.storage.local import LocalStorage
from tests.support.delta_log import Log


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "t")
