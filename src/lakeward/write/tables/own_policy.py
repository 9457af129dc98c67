"""The initial policy of a new table: its own fields, and those from matching patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeward.errors import InvalidInput
from lakeward.formats.policy import MADE, as_properties, property_names
from lakeward.model import arguments
from lakeward.model.names import TableName
from lakeward.model.policy.policy import Policy
from lakeward.model.policy.rules import Rule, effective


def own_fields(format_name: str, policy: Policy | Mapping[str, Any] | None) -> Policy:
    """Return the policy for `lake.create`; raise `InvalidInput` for fields the format lacks."""
    given = policy.given() if isinstance(policy, Policy) else arguments.mapping(policy, "policy")
    known = (*property_names(format_name), "constraints", "features") if given else ()
    unknown = [name for name in given if name not in known]
    if unknown:
        what = f"{unknown[0]!r} is not a policy of {format_name} tables."
        raise InvalidInput(what, hint=f"Policies are {', '.join(known)}.")
    return Policy.of(given)


def taken_over(
    format_name: str, name: TableName, own: Policy, rules: Sequence[Rule]
) -> dict[str, str]:
    """Return the properties that a new table copies from patterns, for its protocol."""
    if not rules:
        return {}
    found = effective(name, rules, own).policy
    given = {field: getattr(found, field) for field in MADE}
    return as_properties(format_name, Policy(**given))
