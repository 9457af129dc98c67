"""Lakes whose warehouse is on an object store."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakeward as lw
from tests.support.s3 import S3Server

if TYPE_CHECKING:
    from tests.support.azurite import Azurite
    from tests.support.gcs import Gcs


@pytest.fixture(scope="session")
def azurite() -> Generator[Azurite]:
    """Azure's blob storage, as far as it is needed."""
    from tests.support.azurite import Azurite
    from tests.support.servers import Unobtainable

    try:
        server = Azurite()
    except Unobtainable as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture(scope="session")
def gcs() -> Generator[Gcs]:
    """Google's object store, as far as it is needed."""
    from tests.support.gcs import Gcs
    from tests.support.servers import Unobtainable

    try:
        server = Gcs()
    except Unobtainable as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture
def open_on(s3_server: S3Server, bucket: str, tmp_path: Path) -> Generator[Callable[..., lw.Lake]]:
    """Opens the test's lake, on the server unless other options are given."""
    with ExitStack() as stack:

        def opened(**options: Any) -> lw.Lake:
            settings = {"warehouse": f"s3://{bucket}/wh", "storage_options": s3_server.options()}
            return stack.enter_context(lw.open(tmp_path / "lake", **{**settings, **options}))

        yield opened
