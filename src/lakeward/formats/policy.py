"""A table's policy: its own properties, combined with the policies of matching patterns.

If a format has a property for a policy field, the table stores the field under that name, so that
other engines respect it. The other fields are stored as properties with a Lakeward prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import orjson

from lakeward.errors import InvalidInput
from lakeward.formats.properties import DELTA_RETENTION, RETENTION, bloom_columns
from lakeward.formats.registry import format_named
from lakeward.model.commit import Head
from lakeward.model.definition import Definition, known
from lakeward.model.names import TableName
from lakeward.model.policy.policy import FIELDS, Policy
from lakeward.model.policy.quantities import duration_text
from lakeward.model.policy.rules import EffectivePolicy, effective

PREFIX: Final = "lakeward.policy."
"""The prefix of properties for policy fields that the format has no property for."""
RETRY: Final = {
    "retry_attempts": "lakeward.retry.attempts",
    "retry_first_delay_seconds": "lakeward.retry.firstDelaySeconds",
    "retry_longest_delay_seconds": "lakeward.retry.longestDelaySeconds",
    "retry_jitter": "lakeward.retry.jitter",
}
MADE: Final = ("append_only", "change_data_feed", "column_mapping", "merge_on_read")
"""Fields that a new table copies from its patterns, because its protocol depends on them."""
_ELSEWHERE: Final = ("constraints", "features")
"""Fields that are not stored as properties, because a definition has attributes for them."""


def effective_policy(head: Head, definition: Definition) -> EffectivePolicy:
    """Return the effective policy of a table, and where each field comes from."""
    name = head.name
    return known(definition, _effective, head.format, name.namespace, name.name)


def settings(head: Head, definition: Definition) -> Mapping[str, str]:
    """Return a table's effective properties, including the policies of matching patterns."""
    return settings_of(definition, head.format)


def settings_of(definition: Definition, format_name: str) -> Mapping[str, str]:
    """Return the effective properties for a definition and the name of its format."""
    if not definition.rules:
        return definition.properties
    return known(definition, _settings, format_name)


def compacts_itself(head: Head, definition: Definition) -> bool:
    """Return whether small files of a table are compacted after commits."""
    return settings(head, definition).get(f"{PREFIX}auto_compaction") == "true"


def audits_reads(head: Head, definition: Definition) -> bool:
    """Return whether reads of a table are recorded in its audit trail."""
    return settings_of(definition, head.format).get(f"{PREFIX}audit_reads") == "true"


def blooms_of(head: Head, definition: Definition) -> frozenset[str]:
    """Return the columns for which a table's files get Bloom filters."""
    return bloom_columns(settings(head, definition))


def own_policy(format_name: str, properties: Mapping[str, str]) -> Policy:
    """Return the policy in a table's own properties; invalid values are ignored."""
    found: dict[str, Any] = {}
    for name, key in property_names(format_name).items():
        text = properties.get(key)
        if text is None and key == RETENTION:
            text = properties.get(DELTA_RETENTION)
        if text is None:
            continue
        try:
            found.update(Policy.of({name: _read(name, key, text)}).given())
        except (InvalidInput, ValueError):
            # Another engine may have set any value.
            continue
    return Policy(**found)


def as_properties(format_name: str, policy: Policy) -> dict[str, str]:
    """Return the table properties that store a policy."""
    names = property_names(format_name)
    given = policy.given().items()
    return {names[f]: _text(names[f], v) for f, v in given if f in names}


def property_names(format_name: str) -> dict[str, str]:
    """Return the table property for each policy field that the format can store."""
    native = native_names(format_name)
    lacking = (*_ELSEWHERE, *format_named(format_name).policies_of_others)
    return {f: native.get(f, PREFIX + f) for f in FIELDS if f not in lacking}


def native_names(format_name: str) -> dict[str, str]:
    """Return those of `property_names` that do not start with `PREFIX`."""
    return {**format_named(format_name).policies, **RETRY}


def _effective(
    definition: Definition, format_name: str, namespace: str, name: str
) -> EffectivePolicy:
    own = own_policy(format_name, definition.properties)
    return effective(TableName(namespace, name), definition.rules, own)


def _settings(definition: Definition, format_name: str) -> dict[str, str]:
    below: dict[str, str] = {}
    above: dict[str, str] = {}
    for rule in definition.rules:
        said = as_properties(format_name, rule.policy)
        (above if rule.pattern.is_exact else below).update(said)
    if DELTA_RETENTION in definition.properties:
        # The table sets it under another name.
        below.pop(RETENTION, None)
    return {**below, **definition.properties, **above}


def _text(key: str, value: Any) -> str:
    """Return a field's value as property text."""
    if key.startswith(PREFIX):
        return orjson.dumps(_plain(value)).decode()
    match value:
        case bool():
            return str(value).lower()
        case timedelta() if key == RETENTION:
            return duration_text(value)
        case timedelta():
            return f"interval {duration_text(value)}"
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def _read(name: str, key: str, text: str) -> Any:
    """Parse a field's value from property text."""
    if key.startswith(PREFIX):
        return orjson.loads(text)
    if text in ("true", "false"):
        return text == "true"
    if name in ("stats_columns", "bloom_filters"):
        return [part.strip() for part in text.split(",") if part.strip()]
    if name in ("checkpoint_interval", "retry_attempts"):
        return int(text)
    if name in RETRY or name == "merge_on_read_fraction":
        return float(text)
    return text


def _plain(value: Any) -> Any:
    return duration_text(value) if isinstance(value, timedelta) else value
