"""The descriptions of both APIs, tried out by schemathesis: no request makes the service fail."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.service import Service, made_lake
from tests.support.sizes import sizes

PROGRAM = Path(__file__).parents[2] / ".venv-browser" / "bin" / "schemathesis"


@pytest.mark.parametrize("api", ["/api/v1", "/iceberg/v1"])
@sizes("examples", short=3, full=200)
def test_no_request_that_the_description_allows_fails(
    tmp_path: Path, examples: int, api: str
) -> None:
    if not PROGRAM.exists():
        pytest.skip("there is no .venv-browser; `make browser` makes it")
    with made_lake(tmp_path / "lake") as lake:
        with Service(lake, anonymous=None, rate=1e6, burst=1e6) as service:
            token = lake.create_token(role="admin").secret
            done = subprocess.run(
                [
                    *(str(PROGRAM), "run", f"{service.url}{api}/openapi.json"),
                    *("-H", f"Authorization: Bearer {token}", "--seed", "1", "--warnings", "off"),
                    *("--checks", "not_a_server_error,ignored_auth,content_type_conformance"),
                    *("--phases", "fuzzing" if examples < 10 else "coverage,fuzzing"),
                    *("-n", str(examples)),
                    *("--exclude-operation-id-regex", "^doctor"),
                ],
                capture_output=True,
                text=True,
                cwd=tmp_path,
            )
        healthy = lake.doctor().healthy

    print(re.findall(r"[\d]+ generated.*", done.stdout))
    assert done.returncode == 0, done.stdout[-6000:]
    assert "No issues found" in done.stdout
    assert healthy
