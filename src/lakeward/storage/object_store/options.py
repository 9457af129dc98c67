"""The options of a warehouse on an object store: resolved once, credentials never shown.

Arguments come before the environment, the environment before AWS's profiles. All credentials come
from the first source that has any: a key of one identity is never combined with a token of another.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lakeward.errors import InvalidInput
from lakeward.storage.object_store.credential_process import obtained
from lakeward.storage.object_store.places import AZURE, GCS, S3
from lakeward.storage.object_store.settings import PROFILE, SETTINGS, Setting

HIDDEN: Final = "***"
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")
_SPAN: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m)?\s*")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
_CONNECTION_STRING: Final = "azure_storage_connection_string"
_NO_KEY: Final = (
    '{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}'
)
_DEFAULT_PROFILE: Final = "default"
_PROFILE_KEYS: Final = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}


@dataclass(frozen=True, repr=False)
class StorageOptions:
    """Settings of one warehouse by obstore's names, and the source that each setting comes from.

    The representation never shows values of credentials.
    """

    provider: str
    values: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={HIDDEN if _is_hidden(self.provider, name) else value!r}"
            for name, value in sorted(self.values.items())
        )
        return f"StorageOptions({self.provider!r}, {shown})"

    def get(self, name: str) -> str | None:
        """Return the value of a setting; None if it is not set."""
        return self.values.get(name)

    def flag(self, name: str) -> bool:
        """Whether a setting is `true`."""
        return self.values.get(name) == "true"

    def has_credentials(self) -> bool:
        """Whether any credentials were found; without them the identity of the machine is used."""
        return any(s.is_credential and s.name in self.values for s in SETTINGS[self.provider])

    def secrets(self) -> list[str]:
        """Return the values that must not be shown, the longest first."""
        found = [v for name, v in self.values.items() if _is_hidden(self.provider, name)]
        return sorted((v for v in found if v), key=len, reverse=True)

    def store_settings(self) -> dict[str, Any]:
        """Return the arguments of obstore's store class."""
        wanted = [s for s in SETTINGS[self.provider] if not s.client]
        skipped = (PROFILE, "max_retries", "retry_timeout")
        out: dict[str, Any] = {
            s.name: self.flag(s.name) if s.kind == "flag" else self.values[s.name]
            for s in wanted
            if s.name in self.values and s.name not in skipped
        }
        if self.provider == GCS and self.flag("skip_signature") and not self.has_credentials():
            # Without a key, object_store asks the machine for a token before each write.
            out["service_account_key"] = _NO_KEY
        return out

    def client_settings(self) -> dict[str, Any]:
        """Return the `client_options` of obstore's store class, timeouts included."""
        out: dict[str, Any] = {
            s.name: self.flag(s.name) if s.kind == "flag" else self.values[s.name]
            for s in SETTINGS[self.provider]
            if s.client and s.name in self.values
        }
        out["timeout"] = self.span("timeout", 60.0)
        out["connect_timeout"] = self.span("connect_timeout", 5.0)
        return out

    def span(self, name: str, usual: float) -> timedelta:
        """Return a setting that is a duration; `usual` is its default in seconds."""
        text = self.values.get(name)
        return timedelta(seconds=usual if text is None else _seconds(name, text))

    def number(self, name: str, usual: int) -> int:
        """Return a setting that is a whole number; `usual` is its default."""
        return int(self.values.get(name, usual))


def resolve(
    provider: str, given: Mapping[str, Any], environment: Mapping[str, str]
) -> StorageOptions:
    """Resolve the options of a warehouse from arguments (by any accepted name) and an environment.

    Raises `InvalidInput` for a setting that is unknown or has a wrong value; the message has the
    name of the setting, never its value.
    """
    arguments = _named(provider, given, strict=True)
    around = _named(provider, environment, strict=False)
    sources = [("argument", arguments), ("environment", around)]
    if provider == S3:
        chosen = arguments.get(PROFILE) or around.get(PROFILE)
        # A profile named in the call takes precedence over the environment.
        place = 1 if PROFILE in arguments else 2
        given_before = any("access_key_id" in known for _, known in sources[:place])
        settings = _profile_settings(chosen, environment, ask=not given_before)
        sources.insert(place, ("profile", settings))
    values, found = _merged(provider, sources)
    options = StorageOptions(provider, values, found)
    _check(options)
    return _completed(options)


def _profile_settings(
    name: str | None, environment: Mapping[str, str], *, ask: bool
) -> dict[str, str]:
    """Return the settings of an AWS profile; without a name, those of the default profile, if any.

    With `ask`, the program of a profile that was chosen by name and has no key is run to obtain
    one.
    """
    wanted = name or _DEFAULT_PROFILE
    credentials = _profile_section(
        _profile_file(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials"), wanted
    )
    title = wanted if wanted == _DEFAULT_PROFILE else f"profile {wanted}"
    config = _profile_section(_profile_file(environment, "AWS_CONFIG_FILE", "config"), title)
    if credentials is None and config is None:
        if name is None:
            return {}
        what = f"There is no AWS profile {name!r}."
        raise InvalidInput(what, hint="Check AWS_PROFILE and the files in ~/.aws.")
    both = {**(config or {}), **(credentials or {})}
    found = {ours: both[theirs] for theirs, ours in _PROFILE_KEYS.items() if theirs in both}
    if ask and name is not None and "access_key_id" not in found:
        found |= obtained(name, both, environment)
    return found


def _profile_file(environment: Mapping[str, str], variable: str, usual: str) -> Path | None:
    if variable in environment:
        return Path(environment[variable]).expanduser()
    home = environment.get("HOME")
    return Path(home) / ".aws" / usual if home else None


def _profile_section(path: Path | None, title: str) -> dict[str, str] | None:
    if path is None or not path.is_file():
        return None
    # A key may hold any character, so nothing is interpolated.
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        # The parser's message may quote a line with a key in it.
        what = f"The AWS file {path} cannot be understood."
        raise InvalidInput(what, hint="Check it with `aws configure list`.") from None
    return dict(parser[title]) if parser.has_section(title) else None


def _merged(
    provider: str, sources: Iterable[tuple[str, Mapping[str, str]]]
) -> tuple[dict[str, str], dict[str, str]]:
    credentials = {s.name for s in SETTINGS[provider] if s.is_credential}
    values: dict[str, str] = {}
    found: dict[str, str] = {}
    for source, settings in sources:
        # With unsigned requests, no credentials of later sources apply.
        has_any = not credentials.isdisjoint(values) or values.get("skip_signature") == "true"
        for name, value in settings.items():
            if name not in values and not (has_any and name in credentials):
                values[name], found[name] = value, source
    return values, found


def _named(provider: str, given: Mapping[str, Any], *, strict: bool) -> dict[str, str]:
    """Return settings by obstore's names.

    `strict` accepts bare names such as `region`, and raises `InvalidInput` for unknown ones.
    """
    known = {n: s for s in SETTINGS[provider] for n in s.names}
    lowered = {str(k).lower(): v for k, v in given.items()}
    if provider == AZURE and _CONNECTION_STRING in lowered:
        text = str(lowered.pop(_CONNECTION_STRING))
        lowered = {**dict(_connection_string(text)), **lowered}
    if strict:
        unknown = sorted(set(lowered) - set(known))
        if unknown:
            what = f"{unknown[0]!r} is not a storage option of {provider} warehouses."
            shown = [s.others[0].upper() if s.others else s.name for s in SETTINGS[provider]]
            hint = f"Options are {', '.join(sorted(shown))}."
            raise InvalidInput(what, hint=hint, option=unknown[0])
    out: dict[str, str] = {}
    for setting in SETTINGS[provider]:
        # In an environment, bare names such as `region` may belong to other programs.
        names = setting.names if strict else setting.others
        for name in names:
            value = lowered.get(name)
            if value is not None and value != "":
                out.setdefault(setting.name, _text(setting, name, value))
    return out


def _text(setting: Setting, name: str, value: Any) -> str:
    text = str(value).strip()
    if setting.kind != "flag":
        return text
    if text.lower() in _TRUE:
        return "true"
    if text.lower() in _FALSE:
        return "false"
    what = f"The storage option {name!r} must be true or false."
    raise InvalidInput(what, option=name)


def _connection_string(text: str) -> Iterator[tuple[str, str]]:
    names = {
        "AccountName": "azure_storage_account_name",
        "AccountKey": "azure_storage_account_key",
        "SharedAccessSignature": "azure_storage_sas_token",
        "BlobEndpoint": "azure_storage_endpoint",
    }
    for part in text.split(";"):
        key, _, value = part.partition("=")
        if key.strip() in names:
            yield names[key.strip()], value.strip()


def _check(options: StorageOptions) -> None:
    for name in ("endpoint", "base_url"):
        endpoint = options.get(name)
        if endpoint is not None:
            _check_endpoint(options, name, endpoint)
    for name in ("timeout", "connect_timeout", "retry_timeout"):
        if name in options.values:
            options.span(name, 0)
    tries = options.get("max_retries")
    if tries is not None and not tries.isdigit():
        what = "The storage option 'max_retries' must be a whole number."
        raise InvalidInput(what, option="max_retries")
    if options.provider == S3:
        pair = [options.get(n) for n in ("access_key_id", "secret_access_key")]
        if (pair[0] is None) != (pair[1] is None):
            what = "Of the S3 access key and its secret only one is given."
            hint = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, both in one place."
            raise InvalidInput(what, hint=hint)


def _check_endpoint(options: StorageOptions, name: str, endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        what = f"The storage option {name!r} must be an http:// or https:// address."
        raise InvalidInput(what, option=name)
    if parts.username or parts.password:
        what = f"The storage option {name!r} takes no credentials in its address."
        raise InvalidInput(what, hint="Give them as options of their own.", option=name)
    if parts.scheme == "http" and not options.flag("allow_http"):
        what = "The endpoint is plain http, so whoever listens can read all data."
        hint = "Use https, or set AWS_ALLOW_HTTP=true (AZURE_ALLOW_HTTP, GOOGLE_ALLOW_HTTP)."
        raise InvalidInput(what, hint=hint, option=name)


def _completed(options: StorageOptions) -> StorageOptions:
    values = dict(options.values)
    if options.provider == S3:
        values.setdefault("region", "us-east-1")
    elif options.provider == AZURE and options.flag("use_emulator"):
        # Azurite speaks plain http on this machine.
        values.setdefault("allow_http", "true")
        values.setdefault("account_name", "devstoreaccount1")
    if "sas_key" in values:
        values["sas_key"] = values["sas_key"].removeprefix("?")
    return replace(options, values=values)


def _seconds(name: str, text: str) -> float:
    found = _SPAN.fullmatch(text)
    if found is None:
        what = f"The storage option {name!r} must be a time such as '30s' or '500ms'."
        raise InvalidInput(what, option=name)
    return float(found[1]) * _UNITS[found[2] or "s"]


def _is_hidden(provider: str, name: str) -> bool:
    return any(s.name == name and s.kind == "secret" for s in SETTINGS[provider])
