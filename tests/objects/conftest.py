"""Lakes whose warehouse is on an object store."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from tests.support.s3 import S3Server


@pytest.fixture
def open_on(s3_server: S3Server, bucket: str, tmp_path: Path) -> Generator[Callable[..., lw.Lake]]:
    """Opens the test's lake, on the server unless other options are given."""
    with ExitStack() as stack:

        def opened(**options: Any) -> lw.Lake:
            settings = {"warehouse": f"s3://{bucket}/wh", "storage_options": s3_server.options()}
            return stack.enter_context(lw.open(tmp_path / "lake", **{**settings, **options}))

        yield opened
