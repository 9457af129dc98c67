"""Checks the numbers in requests of Iceberg's REST protocol: ids, sequence numbers and times.

pyiceberg also takes booleans, texts of digits, and integers of any size, which no engine reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeward.errors import InvalidInput

_INTS: Final = range(2**31)
_LONGS: Final = range(2**63)
_FIELD_IDS: Final = range(2**31 - 200)
"""Iceberg reserves the ids above these for columns such as the position of a row in its file."""
_TIMES: Final = range(253_402_300_800_000)
"""The milliseconds from 1970 to the end of the year 9999."""
_ALLOWED: Final = {
    **dict.fromkeys(("id", "element-id", "key-id", "value-id"), _FIELD_IDS),
    **dict.fromkeys(("source-id", "source-ids", "identifier-field-ids"), _FIELD_IDS),
    **dict.fromkeys(("last-column-id", "field-id"), _FIELD_IDS),
    **dict.fromkeys(("schema-id", "schema-ids", "spec-id", "spec-ids"), _INTS),
    **dict.fromkeys(("order-id", "sort-order-id", "format-version"), _INTS),
    **dict.fromkeys(("snapshot-id", "snapshot-ids", "parent-snapshot-id"), _LONGS),
    **dict.fromkeys(("sequence-number", "first-row-id", "added-rows"), _LONGS),
    **dict.fromkeys(("max-ref-age-ms", "max-snapshot-age-ms"), _LONGS),
    **dict.fromkeys(("file-size-in-bytes", "file-footer-size-in-bytes"), _LONGS),
    "min-snapshots-to-keep": _INTS,
    "timestamp-ms": _TIMES,
}
"""The values that the keys of a request may have, alone or in a list."""
_LAST_ADDED: Final = ("schema-id", "spec-id", "sort-order-id")
"""The keys by which an update refers to what the same commit has added, as -1."""
_FREE: Final = ("summary", "properties", "updates", "initial-default", "write-default")
"""The keys below which clients choose the keys, or that have values of columns."""


def check_numbers(value: Any, place: str = "") -> None:
    """Raise `InvalidInput` if a number in the JSON of a request is no integer, or out of range.

    `place` is where the value is in the request.
    """
    if isinstance(value, list):
        for number, part in enumerate(value):
            check_numbers(part, f"{place}[{number}]")
    if not isinstance(value, Mapping):
        return
    for key, part in value.items():
        inside = f"{place}.{key}" if place else key
        if _is_number(key, value):
            _check(part, inside, _allowed(key, value))
        elif key not in _FREE:
            check_numbers(part, inside)


def _is_number(key: str, owner: Mapping[str, Any]) -> bool:
    # A snapshot has a `key-id`, too: the name of the key by which it is encrypted.
    return key in _ALLOWED and (key != "key-id" or "value-id" in owner)


def _allowed(key: str, owner: Mapping[str, Any]) -> range:
    found = _ALLOWED[key]
    return range(-1, found.stop) if "action" in owner and key in _LAST_ADDED else found


def _check(value: Any, place: str, allowed: range) -> None:
    for one in value if isinstance(value, list) else [value]:
        if one is None or (type(one) is int and one in allowed):
            continue
        first, last = allowed[0], allowed[-1]
        what = f"`{place}` of the request is {_shown(one)}, and not an integer in {first}–{last}."
        raise InvalidInput(what)


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
