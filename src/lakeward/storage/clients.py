"""The library that speaks to object stores, by its one door."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from lakeward.errors import InvalidInput, MissingExtra
from lakeward.storage.options import StorageOptions
from lakeward.storage.places import AZURE, S3, ObjectPlace
from lakeward.storage.retry import RETRY_SECONDS, SHARE

_CLASSES: Final = {S3: "S3Store", AZURE: "AzureStore"}
_RETRIES: Final = 10


def client(place: ObjectPlace, options: StorageOptions) -> Any:
    """A client of the bucket or container of a place.

    Raises:
        MissingExtra: The library is not installed.
        InvalidInput: It does not take the settings.
    """
    try:
        from obstore import store
    except ImportError as error:
        what = f"A warehouse on {place.uri().partition('://')[0]}:// needs obstore."
        hint = f"Run: pip install 'lakeward[{place.provider}]'."
        raise MissingExtra(what, hint=hint) from error
    kind = getattr(store, _CLASSES.get(place.provider, "GCSStore"))
    settings = options.store_settings()
    if place.account is not None:
        settings["account_name"] = place.account
    try:
        return kind(
            place.container,
            client_options=options.client_settings(),
            retry_config={
                "max_retries": options.number("max_retries", _RETRIES),
                "retry_timeout": options.span("retry_timeout", RETRY_SECONDS) / SHARE,
                "backoff": {
                    "init_backoff": timedelta(milliseconds=50),
                    "max_backoff": timedelta(seconds=5),
                    "base": 2,
                },
            },
            **settings,
        )
    except Exception:  # noqa: BLE001  it quotes what it was given
        what = f"The storage options do not fit a warehouse on {place.uri()}."
        hint = f"Settings given: {', '.join(sorted(options.values)) or 'none'}."
        raise InvalidInput(what, hint=hint) from None
