"""Credentials of an AWS profile that a program prints.

The program is the profile's `credential_process`; for profiles with SSO or a role it is AWS's
command line, which obtains the credentials and prints them in the same form. The program is run
when a lake is opened. Its output contains secrets, so no message quotes it.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from lakeward.errors import InvalidInput, MissingExtra

LOGINS: Final = ("sso_session", "sso_start_url", "role_arn")
"""Keys of profiles whose credentials AWS's command line obtains."""
_OWN: Final = "credential_process"
_SECONDS: Final = 60
_KEYS: Final = {
    "AccessKeyId": "access_key_id",
    "SecretAccessKey": "secret_access_key",
    "SessionToken": "session_token",
}


def obtained(
    name: str, profile: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the credentials of a profile by obstore's names; none if it needs no program.

    Raises:
        InvalidInput: The program failed, or its output has another form.
        MissingExtra: The profile needs AWS's command line, which is not installed.
    """
    if _OWN in profile:
        return _asked(name, shlex.split(profile[_OWN]), environment)
    if not any(key in profile for key in LOGINS):
        return {}
    found = shutil.which("aws", path=environment.get("PATH", ""))
    if found is None:
        how = next(key for key in LOGINS if key in profile)
        what = f"AWS profile {name!r} gets its credentials by {how}, which needs AWS's CLI."
        raise MissingExtra(what, hint="Install it, or give AWS_ACCESS_KEY_ID and its secret.")
    command = [found, "configure", "export-credentials", "--profile", name, "--format", "process"]
    return _asked(name, command, environment)


def _asked(name: str, command: list[str], environment: Mapping[str, str]) -> dict[str, str]:
    if not command:
        what = f"AWS profile {name!r} has an empty {_OWN}."
        raise InvalidInput(what)
    hint = f"Try it: aws sts get-caller-identity --profile {name}."
    try:
        done = subprocess.run(  # noqa: S603  the user's own profile names the program
            command,
            capture_output=True,
            check=True,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
        answer: Any = json.loads(done.stdout)
        values = {ours: answer.get(theirs) for theirs, ours in _KEYS.items()}
    except (OSError, subprocess.SubprocessError):
        what = f"The program that gives out the credentials of AWS profile {name!r} failed."
        raise InvalidInput(what, hint=hint, profile=name) from None
    except (ValueError, AttributeError):
        what = f"The program of AWS profile {name!r} answered with something else than credentials."
        raise InvalidInput(what, hint=hint, profile=name) from None
    if answer.get("Version") != 1 or not values["access_key_id"] or not values["secret_access_key"]:
        what = f"The program of AWS profile {name!r} gave no access key."
        raise InvalidInput(what, hint=hint, profile=name)
    return {key: str(value) for key, value in values.items() if value}
