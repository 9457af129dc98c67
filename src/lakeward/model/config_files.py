"""Parses configuration files of TOML or YAML with one table, which has an entry for each name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from lakeward.errors import InvalidInput, MissingExtra


def read_entries(text: str, suffix: str, table: str, example: str) -> dict[str, Any]:
    """Return the entries of the only table of a file.

    Args:
        text: The file's content.
        suffix: `.yaml` or `.yml` for YAML; TOML otherwise.
        table: The table's name.
        example: The name of an entry, as TOML writes it, for the hint of an error.

    Raises:
        InvalidInput: The content cannot be parsed, or has something else than the table.
        MissingExtra: The file is YAML, and PyYAML is not installed.
    """
    body = _yaml(text, table) if suffix in (".yaml", ".yml") else _toml(text, table)
    entries = (body[table] or {}) if isinstance(body, Mapping) and list(body) == [table] else None
    if not isinstance(entries, Mapping):
        what = f"A file of {table} has one table, `{table}`, with an entry for each."
        raise InvalidInput(what, hint=f"Write [{table}.{example}], then a field on each line.")
    return dict(entries)


def _toml(text: str, table: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what = f"The file of {table} is no TOML: {error}."
        raise InvalidInput(what) from error


def _yaml(text: str, table: str) -> Any:
    try:
        yaml = import_module("yaml")
    except ImportError as error:
        what = "YAML needs the library PyYAML."
        raise MissingExtra(what, hint="pip install pyyaml, or write the file as TOML.") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        what = f"The file of {table} is no YAML: {error}."
        raise InvalidInput(what) from error
