"""The policies of a lake's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeward.context import LakeContext
from lakeward.model import arguments
from lakeward.model.names import TableName
from lakeward.model.policy.patterns import Pattern
from lakeward.model.policy.policy import Policy
from lakeward.model.policy.rules import EffectivePolicy
from lakeward.read import policies
from lakeward.read.policies import PolicyRecord


class Policies:
    """The part of a lake's interface that manages policies."""

    _context: LakeContext

    def policy(self, name: str) -> EffectivePolicy:
        """Return the effective policy of a table, and where each field comes from.

        For a name that no table has yet: the policy that a table of this name would have.
        """
        with self._context.database.read() as session:
            return policies.of_table(self._context, session, TableName.parse(name))

    def policies(self, *, history: bool = False, pattern: str | None = None) -> list[PolicyRecord]:
        """Return the policies that are set for patterns of tables, by pattern.

        Args:
            history: Return all policies ever set, oldest first, with actor, time and message.
            pattern: Only policies set for exactly this pattern.
        """
        wanted = None if pattern is None else Pattern.parse(pattern).text
        with self._context.database.read() as session:
            if arguments.flag(history, "history"):
                return policies.history(session, wanted)
            found = policies.current(session)
        return [one for one in found if wanted is None or one.pattern == wanted]

    def set_policy(
        self,
        pattern: str,
        policy: Policy | Mapping[str, Any] | None,
        *,
        message: str | None = None,
    ) -> PolicyRecord:
        """Set the policy of all tables that a pattern matches, including later ones.

        It replaces the previous policy of the same pattern. If several policies set a field for a
        table, the policy of its exact name has priority, then the table's own properties, then the
        more specific pattern. Constraints of all policies apply together.

        Args:
            pattern: A table's name, `gold.*` for a namespace, `gold.fact_*`, or `*` for all.
            policy: A `Policy`, or a mapping with its fields; None removes the pattern's policy.
            message: Why; kept with the policy.

        Raises:
            InvalidInput: A field or value does not exist, or a table that the pattern matches lacks
                the columns of a constraint.
            ConstraintViolation: Rows of a table violate a constraint of the policy. Nothing was
                set.
        """
        from lakeward.write.tables.policies import set_policy

        chosen = None if policy is None else Policy.of(policy)
        why = arguments.optional_text(message, "message")
        return set_policy(self._context, Pattern.parse(pattern), chosen, why)
