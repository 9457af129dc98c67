"""pyiceberg beside the lake that is looked after."""

from __future__ import annotations

from collections.abc import Generator

import pytest

import lakeward as lw
from tests.behaviour.iceberg.strangers import Stranger
from tests.support.iceberg import stranger_catalog


@pytest.fixture
def stranger(lake: lw.Lake) -> Generator[Stranger]:
    """pyiceberg on the lake's catalog."""
    with Stranger(stranger_catalog(lake)) as found:
        yield found
