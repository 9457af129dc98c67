"""Policy files for version control: TOML or YAML, one section for each pattern.

::

    [policies."gold.*"]
    target_file_size = "128 MB"
    constraints = {positive = "amount > 0"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakeward.errors import InvalidInput
from lakeward.model.config_files import read_entries
from lakeward.model.policy.patterns import Pattern
from lakeward.model.policy.policy import Policy

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """The change that applying a file makes to the policy of one pattern.

    Attributes:
        pattern: The pattern.
        action: `set`, `change` or `remove`.
        before: The present policy of the pattern, as JSON values; None for none.
        after: The new policy; None for none.
    """

    pattern: str
    action: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


def read_policies(text: str, suffix: str) -> dict[str, Policy]:
    """Return the policies of a file by pattern; raise `InvalidInput` for invalid content."""
    entries = read_entries(text, suffix, "policies", '"gold.*"')
    found: dict[str, Policy] = {}
    for pattern, fields in entries.items():
        try:
            found[Pattern.parse(pattern).text] = Policy.of(fields or {})
        except InvalidInput as error:
            what = f"Policy {pattern}: {error.what}"
            raise type(error)(what, hint=error.hint, **error.facts) from error
    return found


def write_policies(policies: Iterable[tuple[str, Policy]]) -> str:
    """Return policies as TOML, which `read_policies` reads."""
    parts = []
    for pattern, policy in policies:
        lines = [f"[policies.{_key(pattern)}]"]
        lines += [f"{name} = {_value(value)}" for name, value in policy.to_json().items()]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts) if parts else "[policies]\n"


def planned(
    current: Mapping[str, Policy], wanted: Mapping[str, Policy], *, prune: bool
) -> list[PolicyChange]:
    """Return the changes that turn the current policies into the wanted ones.

    Patterns that are not in the file keep their policies unless `prune`.
    """
    out = []
    for pattern in sorted({*current, *wanted}):
        old, new = current.get(pattern), wanted.get(pattern)
        before = None if old is None else old.to_json()
        after = None if new is None else new.to_json()
        if before == after or (new is None and not prune):
            continue
        action = "set" if old is None else "change" if new is not None else "remove"
        out.append(PolicyChange(pattern, action, before, after))
    return out


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _value(value: Any) -> str:
    match value:
        case Mapping():
            pairs = (f"{_key(name)} = {_value(one)}" for name, one in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return repr(value)
