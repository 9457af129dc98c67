"""Finds tables in other catalogs, by pyiceberg; the catalogs are not changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote

from lakeward.errors import InvalidInput, StorageError, TableNotFound
from lakeward.formats.iceberg.extra import pyiceberg

_HIDDEN: Final = "***"
_PASSWORD: Final = re.compile(r"://[^/@\s]*?:(?P<secret>[^@\s]+)@")
_PLAIN: Final = ("type", "name", "py-catalog-impl", "init_catalog_tables")
"""Properties that are not secret."""


def pointer_in(properties: Mapping[str, str], identifier: str) -> str:
    """Return the address of a table's current metadata document in another catalog.

    `identifier` is `namespace.table`. `properties` are those of pyiceberg's `load_catalog`; `name`
    among them is the catalog's name. Raises `TableNotFound`, `InvalidInput` if the catalog cannot
    be opened, and `StorageError`.
    """
    # By default pyiceberg creates the tables of a SQL catalog if they are missing.
    asked = {"init_catalog_tables": "false", **properties}
    name = str(asked.pop("name", "default"))
    missing = pyiceberg("exceptions")
    try:
        found = pyiceberg("catalog").load_catalog(name, **asked)
    except Exception as error:  # noqa: BLE001  each kind of catalog has errors of its own
        what = f"The catalog {name!r} cannot be opened: {_without_secrets(error, properties)}"
        raise InvalidInput(what, hint="Check its properties.") from None
    try:
        return str(found.load_table(identifier).metadata_location)
    except (missing.NoSuchTableError, missing.NoSuchNamespaceError, missing.NoSuchIdentifierError):
        what = f"The catalog {name!r} has no table {identifier}."
        raise TableNotFound(what, hint="Name it as `namespace.table`.", table=identifier) from None
    except Exception as error:  # noqa: BLE001
        reason = _without_secrets(error, properties)
        what = f"The catalog {name!r} cannot tell of {identifier}: {reason}"
        raise StorageError(what, hint="Check its properties and its storage.") from None
    finally:
        _close(found)


def _close(catalog: Any) -> None:
    with suppress(Exception):
        catalog.close()
    with suppress(Exception):
        catalog.engine.dispose()


def _without_secrets(error: Exception, properties: Mapping[str, str]) -> str:
    """Return an error's message with the values of properties, which may be secret, hidden."""
    text = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
    values = [str(v) for k, v in properties.items() if k not in _PLAIN]
    secrets = {m["secret"] for v in values for m in _PASSWORD.finditer(v)}
    for secret in sorted({*values, *secrets, *map(unquote, secrets)}, key=len, reverse=True):
        if secret:
            text = text.replace(secret, _HIDDEN)
    return _PASSWORD.sub(f"://{_HIDDEN}@", text).rstrip(".") + "."
