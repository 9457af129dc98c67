"""The initial policy of a new table: its own fields, and those from matching patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.formats.policy import MADE, as_properties, property_names
from lakeward.formats.registry import format_named
from lakeward.log import policies
from lakeward.model import arguments
from lakeward.model.constraints import Constraint
from lakeward.model.names import TableName
from lakeward.model.policy.policy import Policy
from lakeward.model.policy.rules import Rule, effective


def own_fields(format_name: str, policy: Policy | Mapping[str, Any] | None) -> Policy:
    """Return the policy given to `lake.create`, or an empty one for None.

    Raises `InvalidInput` if it has a setting that the format does not support.
    """
    given = policy.given() if isinstance(policy, Policy) else arguments.mapping(policy, "policy")
    known = (*property_names(format_name), "constraints", "features") if given else ()
    unknown = [name for name in given if name not in known]
    if unknown:
        what = f"{unknown[0]!r} is not a policy of {format_name} tables."
        raise InvalidInput(what, hint=f"Policies are {', '.join(known)}.")
    found = Policy.of(given)
    lacking = [f for f in found.features or () if f not in format_named(format_name).features]
    if lacking:
        features = ", ".join(format_named(format_name).features)
        what = f"New {format_name} tables cannot get the feature {lacking[0]!r}."
        raise InvalidInput(what, hint=f"Features are {features}.", feature=lacking[0])
    return found


def made_with(
    context: LakeContext,
    format_name: str,
    name: TableName,
    policy: Policy | Mapping[str, Any] | None,
    properties: Mapping[str, str],
) -> tuple[dict[str, str], dict[str, str | Constraint]]:
    """Return the properties and the constraints of a new table that has a policy of its own.

    Args:
        context: The lake.
        format_name: The format of the table.
        name: The name of the table.
        policy: Its own policy.
        properties: The properties that are given besides; the policy replaces them.
    """
    given = own_fields(format_name, policy)
    with context.database.read() as session:
        taken = taken_over(format_name, name, given, policies.for_table(session, name))
    merged = {**taken, **properties, **as_properties(format_name, given)}
    return merged, dict(given.constraints or {})


def inherited(context: LakeContext, format_name: str, name: TableName) -> dict[str, str]:
    """Return the properties of a new table without its own policy, by matching patterns."""
    with context.database.read() as session:
        return taken_over(format_name, name, Policy(), policies.for_table(session, name))


def taken_over(
    format_name: str, name: TableName, own: Policy, rules: Sequence[Rule]
) -> dict[str, str]:
    """Return the properties that a new table copies from its policies, for its protocol.

    Features of patterns that the format does not have are left out.
    """
    if not rules and not own.features:
        return {}
    found = effective(name, rules, own).policy
    known = format_named(format_name).features
    features = dict(known[f] for f in found.features or () if f in known)
    given = {field: getattr(found, field) for field in MADE}
    return {**features, **as_properties(format_name, Policy(**given))}
