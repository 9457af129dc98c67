"""AWS profiles whose credentials a program gives out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, MissingExtra
from lakeward.storage.object_store.options import resolve
from lakeward.storage.object_store.places import S3
from tests.support.s3 import IDENTITY, SECRET, S3Server

_ANSWER = {"Version": 1, "AccessKeyId": IDENTITY, "SecretAccessKey": SECRET}


def _environment(tmp_path: Path, settings: str) -> dict[str, str]:
    config = tmp_path / "config"
    config.write_text(f"[profile p]\n{settings}\n")
    return {"AWS_CONFIG_FILE": str(config), "AWS_PROFILE": "p", "PATH": str(tmp_path)}


def _program(path: Path, says: str) -> str:
    path.write_text(f"#!{sys.executable}\nimport sys\nprint({says})\n")
    path.chmod(0o700)
    return str(path)


@pytest.mark.s3
def test_a_lake_is_reached_with_what_the_program_gives(
    open_on: Callable[..., lw.Lake],
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = _program(tmp_path / "give", repr(json.dumps(_ANSWER)))
    for name, value in _environment(tmp_path, f"credential_process = {program}").items():
        if name != "PATH":
            monkeypatch.setenv(name, value)
    options = {k: v for k, v in s3_server.options().items() if "KEY" not in k}
    lake = open_on(storage_options=options)
    lake.create("t", "id int64").append([{"id": 1}])
    assert lake.table("t").count() == 1


@pytest.mark.parametrize("login", ["sso_session = s", "role_arn = arn:aws:iam::1:role/r"])
def test_other_logins_go_by_the_command_line_of_aws(tmp_path: Path, login: str) -> None:
    environment = _environment(tmp_path, login)
    with pytest.raises(MissingExtra, match="needs AWS's CLI"):
        resolve(S3, {}, environment)
    arguments = "' '.join(sys.argv[1:])"
    _program(
        tmp_path / "aws",
        f"""'{{"Version": 1, "SecretAccessKey": "s", "AccessKeyId": "' + {arguments} + '"}}'""",
    )
    found = resolve(S3, {}, environment)
    wanted = "configure export-credentials --profile p --format process"
    assert found.get("access_key_id") == wanted
    assert wanted not in repr(found)


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("'no json with ' + 'a-secret'", "something else"),
        ("""'{"Version": 1, "SecretAccessKey": "a-secret"}'""", "no access key"),
        ("sys.exit('a-secret')", "failed"),
        ("'[]'", "something else"),
    ],
)
def test_a_program_that_fails_is_told_without_its_output(
    tmp_path: Path, says: str, told: str
) -> None:
    program = _program(tmp_path / "give", says)
    environment = _environment(tmp_path, f"credential_process = {program}")
    with pytest.raises(InvalidInput, match=told) as caught:
        resolve(S3, {}, environment)
    assert "a-secret" not in str(caught.value)


def test_no_program_is_run_where_keys_are_given(tmp_path: Path) -> None:
    environment = _environment(tmp_path, f"credential_process = {os.devnull}/nothing")
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    assert resolve(S3, {}, {**environment, **keys}).get("access_key_id") == "k"
    with pytest.raises(InvalidInput, match="failed"):
        resolve(S3, {"AWS_PROFILE": "p"}, {**environment, **keys})
