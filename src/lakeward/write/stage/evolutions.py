"""Enforces policies on schema changes, before anything is written."""

from __future__ import annotations

from lakeward.errors import PolicyViolation
from lakeward.formats.delta.mapping import MODE
from lakeward.formats.policy import effective_policy
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.evolution.differences import evolutions, name_of
from lakeward.model.evolution.merging import SchemaMode
from lakeward.model.policy.policy import Mode
from lakeward.model.policy.rules import TABLE


def check_asked(head: Head, before: Definition, after: Definition, asked: Alteration) -> None:
    """Raise `PolicyViolation` for an alteration that the table's policy does not allow."""
    found = effective_policy(head, before)
    allowed = found.policy.allowed_evolutions
    if allowed is not None and name_of(asked) not in allowed:
        raise _refused(head, found.sources["allowed_evolutions"], str(asked), allowed)
    _check_mapping(head, before, after)


def check_evolved(head: Head, before: Definition, after: Definition) -> None:
    """Raise `PolicyViolation` if the policy does not allow a new definition, of any engine."""
    found = effective_policy(head, before)
    allowed = found.policy.allowed_evolutions
    if allowed is not None:
        for one in evolutions(before, after):
            if one.name not in allowed:
                raise _refused(head, found.sources["allowed_evolutions"], one.what, allowed)
    _check_mapping(head, before, after)


def mode_of(
    head: Head, definition: Definition, asked: SchemaMode | None, most: SchemaMode
) -> SchemaMode | None:
    """Return the schema mode of a write: the requested one, or the policy's.

    `most` is the mode that allows the most changes among those that the operation supports. Raises
    `PolicyViolation` if the request exceeds what the policy allows.
    """
    found = effective_policy(head, definition)
    said = found.policy.schema_mode
    if said is None:
        return asked
    if asked is None:
        if said == Mode.STRICT:
            return None
        return most if said == Mode.OVERWRITE else SchemaMode.MERGE
    order = list(Mode)
    if order.index(Mode(asked.value)) > order.index(Mode(said)):
        source = found.sources["schema_mode"]
        what = f"schema_mode={asked.value!r} is refused: {_policy(head, source)} says {said!r}."
        hint = "Change the policy with lake.set_policy, or write the table's own columns."
        facts = {"table": str(head.name), "pattern": source, "field": "schema_mode"}
        raise PolicyViolation(what, hint=hint, **facts)
    return asked


def check_merging(head: Head, definition: Definition) -> None:
    """Raise `PolicyViolation` if the policy does not allow a write that adds columns."""
    mode_of(head, definition, SchemaMode.MERGE, SchemaMode.MERGE)


def _check_mapping(head: Head, before: Definition, after: Definition) -> None:
    modes = (before.properties.get(MODE, "none"), after.properties.get(MODE, "none"))
    if modes[0] == modes[1]:
        return
    found = effective_policy(head, before)
    if found.policy.column_mapping == "none" and found.sources["column_mapping"] != TABLE:
        source = found.sources["column_mapping"]
        what = f"The change needs column mapping, and {_policy(head, source)} says 'none'."
        hint = "Change the policy with lake.set_policy, or add a new column instead."
        facts = {"table": str(head.name), "pattern": source, "field": "column_mapping"}
        raise PolicyViolation(what, hint=hint, **facts)


def _refused(head: Head, source: str, what: str, allowed: tuple[str, ...]) -> PolicyViolation:
    text = f"`{what}` of {head.name} is refused by {_policy(head, source)}."
    hint = f"It allows {', '.join(allowed)}." if allowed else "It allows no change of the table."
    facts = {"table": str(head.name), "pattern": source, "field": "allowed_evolutions"}
    return PolicyViolation(text, hint=hint, **facts)


def _policy(head: Head, source: str) -> str:
    return f"the policy of {head.name if source == TABLE else source}"
