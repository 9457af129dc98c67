"""A store is probed when it is attached: whoever does not honour put-if-absent is found out."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.errors import StorageError
from lakeward.storage.attach import PROBE
from tests.support.faulty_store import Fault, FaultyStore
from tests.support.s3 import S3Server, on_disk
from tests.support.servers import free_port, is_listening

pytestmark = pytest.mark.s3

KEY, SECRET = "tester", "a-secret-of-the-tests"


@pytest.fixture
def careless(tmp_path: Path) -> Generator[dict[str, str]]:
    """A store that takes conditional puts and overwrites: rclone's. The options that reach it."""
    port = free_port()
    served = tmp_path / "served"
    (served / "bucket").mkdir(parents=True)
    program = Path(sys.executable).with_name("rclone")
    address = ("--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}")
    process = subprocess.Popen(
        [program, "serve", "s3", served, *address, "--config", tmp_path / "none"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 30
        while not is_listening(port):
            assert time.monotonic() < until, "rclone did not start"
            time.sleep(0.02)
        yield {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
        }
    finally:
        process.kill()
        process.wait()


def test_a_store_that_overwrites_is_found_out_and_nothing_is_made(
    careless: dict[str, str], tmp_path: Path
) -> None:
    for _ in range(2):
        with pytest.raises(StorageError, match="does not honour put-if-absent") as caught:
            lw.open(tmp_path / "lake", warehouse="s3://bucket/wh", storage_options=careless)

        assert "conditional puts" in str(caught.value.hint)
    assert not (tmp_path / "lake").exists()


def test_a_store_is_probed_once_and_its_answer_remembered(
    s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    place = f"s3://{bucket}/wh"
    with FaultyStore(s3_server.port) as store:
        options = s3_server.options(store.endpoint)
        lw.open(tmp_path / "lake", warehouse=place, storage_options=options).close()
        first = store.requests
        lw.open(tmp_path / "lake", warehouse=place, storage_options=options).close()
        again = store.requests

    assert on_disk(f"{place}/{PROBE}").is_file()
    # Two requests of the probe; three find, write and read the warehouse's identity, and each
    # later opening reads it once.
    assert (first, again - first) == (2 + 3, 1)


def test_an_answer_that_is_lost_while_a_store_is_probed_blames_nobody(
    s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    with FaultyStore(s3_server.port) as store:
        lost = iter([Fault.LOST, Fault.OVERLOADED, Fault.LOST])
        store.decide = lambda _m, _p: next(lost, None)
        options = s3_server.options(store.endpoint)
        with lw.open(
            tmp_path / "lake", warehouse=f"s3://{bucket}", storage_options=options
        ) as lake:
            assert lake.tables() == []
        assert store.happened.total() == 3


def test_a_store_that_is_not_there_is_told_soon_and_nothing_is_made(tmp_path: Path) -> None:
    options = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}",
        "AWS_ALLOW_HTTP": "true",
        "retry_timeout": "500ms",
    }

    with pytest.raises(StorageError, match="nobody listens at its address"):
        lw.open(tmp_path / "lake", warehouse="s3://bucket/wh", storage_options=options)

    assert not (tmp_path / "lake").exists()
