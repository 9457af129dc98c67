"""Computes the effective policy of a table from the policies that are set for patterns.

In ascending priority: the patterns from the least to the most specific, the table's own properties,
and the policy that is set for the table's exact name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lakeward.model.names import TableName
from lakeward.model.policy.patterns import Pattern
from lakeward.model.policy.policy import Policy

TABLE: Final = "table"
"""The source of fields that the table's own properties set."""
QUARANTINE: Final = "__quarantine"
"""The suffix of the name of a table that receives the rows rejected by another's constraints."""
_OF_ROWS: Final = ("constraints", "schema_mode", "allowed_evolutions", "append_only")


@dataclass(frozen=True, slots=True)
class Rule:
    """A policy that is set for a pattern.

    Attributes:
        policy_id: Grows with every policy that is set.
        pattern: The tables to which the policy applies.
        policy: The policy itself.
    """

    policy_id: int
    pattern: Pattern
    policy: Policy


@dataclass(frozen=True)
class EffectivePolicy:
    """The effective policy of a table, and where each field comes from.

    Attributes:
        table: The table's name.
        policy: All fields that are set.
        sources: For each field that is set, the pattern that sets it, or `table`.
        constraints: For each constraint of a pattern, the pattern.
    """

    table: str
    policy: Policy
    sources: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the policy and its sources as JSON values."""
        return {
            "table": self.table,
            "policy": self.policy.to_json(),
            "sources": dict(self.sources),
            "constraints": dict(self.constraints),
        }


def for_table(rules: Iterable[Rule], name: TableName) -> tuple[Rule, ...]:
    """Return the rules that match a table, the least specific first.

    No rule restricts the rows of a quarantine table, which receives rows that constraints reject.
    """
    found = sorted(
        (rule for rule in rules if rule.pattern.matches(name)),
        key=lambda rule: rule.pattern.specificity,
    )
    if name.name.endswith(QUARANTINE):
        none = dict.fromkeys(_OF_ROWS)
        found = [replace(rule, policy=replace(rule.policy, **none)) for rule in found]
    return tuple(found)


def effective(name: TableName, rules: Iterable[Rule], own: Policy) -> EffectivePolicy:
    """Combine a table's own policy with the rules that match its name.

    Of rules with a pattern a later one overrides an earlier one, the table's own policy overrides
    these, and a rule for exactly this name overrides all.
    """
    layers: list[tuple[str, Policy]] = []
    exact: list[tuple[str, Policy]] = []
    for rule in rules:
        (exact if rule.pattern.is_exact else layers).append((rule.pattern.text, rule.policy))
    policy, sources, constraints = Policy(), {}, {}
    for source, one in (*layers, (TABLE, own), *exact):
        policy = one.over(policy)
        sources.update(dict.fromkeys(one.given(), source))
        constraints.update(dict.fromkeys(one.constraints or (), source))
    return EffectivePolicy(str(name), policy, sources, constraints)


def said(rules: Iterable[Rule], name: str, own: Any) -> Any:
    """Return the effective value of one field, given the table's own value; None if not set."""
    below = above = None
    for rule in rules:
        value = getattr(rule.policy, name)
        if value is not None and rule.pattern.is_exact:
            above = value
        elif value is not None:
            below = value
    if above is not None:
        return above
    return below if own is None else own
