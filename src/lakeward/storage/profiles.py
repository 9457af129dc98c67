"""AWS profiles: credentials, region and endpoint from the two files that AWS's tools share."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lakeward.errors import InvalidInput

_DEFAULT: Final = "default"
_TAKEN: Final = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}
_ELSEWHERE: Final = ("sso_session", "sso_start_url", "role_arn", "credential_process")
"""What asks for a login or a call of its own, which AWS's own tools make."""


def profile_settings(name: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of a profile, by obstore's names.

    Args:
        name: The profile that was asked for; None for the default one, which may be missing.
        environment: Says where the files are: `AWS_SHARED_CREDENTIALS_FILE`, `AWS_CONFIG_FILE`,
            or `HOME`.

    Raises:
        InvalidInput: The profile that was asked for does not exist, or gets its credentials by
            ways that are not built.
    """
    wanted = name or _DEFAULT
    credentials = _section(_file(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials"), wanted)
    title = wanted if wanted == _DEFAULT else f"profile {wanted}"
    config = _section(_file(environment, "AWS_CONFIG_FILE", "config"), title)
    if credentials is None and config is None:
        if name is None:
            return {}
        what = f"There is no AWS profile {name!r}."
        raise InvalidInput(what, hint="Check AWS_PROFILE and the files in ~/.aws.")
    both = {**(config or {}), **(credentials or {})}
    if "aws_access_key_id" not in both:
        asked = next((key for key in _ELSEWHERE if key in both), None)
        if asked is not None and name is not None:
            what = f"AWS profile {wanted!r} gets its credentials by {asked}, which is not built."
            hint = f"Run: eval $(aws configure export-credentials --profile {wanted} --format env)."
            raise InvalidInput(what, hint=hint)
    return {ours: both[theirs] for theirs, ours in _TAKEN.items() if theirs in both}


def _file(environment: Mapping[str, str], variable: str, usual: str) -> Path | None:
    if variable in environment:
        return Path(environment[variable]).expanduser()
    home = environment.get("HOME")
    return Path(home) / ".aws" / usual if home else None


def _section(path: Path | None, title: str) -> dict[str, str] | None:
    if path is None or not path.is_file():
        return None
    # A key may hold any character, so nothing is interpolated.
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        # What the parser says may quote a line with a key in it.
        what = f"The AWS file {path} cannot be understood."
        raise InvalidInput(what, hint="Check it with `aws configure list`.") from None
    return dict(parser[title]) if parser.has_section(title) else None
