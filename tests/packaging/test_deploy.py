"""What `deploy/service` has is whole, and its start commands start the service."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

import lakeward as lw

HERE = Path(__file__).parents[2] / "deploy" / "service"


def in_image() -> list[str]:
    found = re.search(r"^CMD (\[.*\])$", (HERE / "Dockerfile").read_text(), re.MULTILINE)
    assert found is not None
    return list(json.loads(found[1]))


def in_unit() -> list[str]:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((HERE / "lakeward.service").read_text())
    return shlex.split(unit["Service"]["ExecStart"])


@pytest.mark.parametrize("command", [in_image(), in_unit()], ids=["image", "unit"])
def test_the_start_command_serves_the_lake_and_ends_when_asked(
    tmp_path: Path, command: list[str]
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        token = lake.create_token().secret
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    asked = [sys.executable, "-m", "lakeward", *command[1:]]
    asked[asked.index("8050")] = str(port)
    environment = {**os.environ, "LAKEWARD_LAKE": str(tmp_path / "lake")}
    with subprocess.Popen(asked, env=environment, stderr=subprocess.PIPE) as server:
        try:
            assert answered(f"http://127.0.0.1:{port}/readyz", None) == 200
            assert answered(f"http://127.0.0.1:{port}/api/v1", token) == 200
            assert answered(f"http://127.0.0.1:{port}/api/v1", None) == 401
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(40) == 0


def test_the_compose_file_has_its_services_and_no_password() -> None:
    text = (HERE / "compose.yaml").read_text()
    found = yaml.safe_load(text)

    assert set(found["services"]) == {"store", "files", "service"}
    service = found["services"]["service"]
    assert (HERE / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    assert service["command"][:2] == ["lakeward", "serve"]
    assert not re.search(r"(PASSWORD|SECRET\w*|ACCESS_KEY\w*): (?!\$\{)", text)


def answered(address: str, token: str | None) -> int:
    """The status of an answer, once the service listens."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as found:
                return int(found.status)
        except urllib.error.HTTPError as error:
            return error.code
        except urllib.error.URLError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
