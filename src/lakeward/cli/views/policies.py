"""Policies, and plans of changes to them, as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words

if TYPE_CHECKING:
    from lakeward.lake.records import EffectivePolicy, PolicyChange, PolicyRecord


def policies(found: Sequence[PolicyRecord]) -> Iterator[RenderableType]:
    """Show each pattern with its policy: who set it, when and why."""
    if not found:
        yield Text("No policy is set: `lakeward policy set` sets one.")
    for one in found:
        until = "" if one.until is None else f", until {words.moment(one.until)}"
        yield words.heading(f"{one.pattern}{until}")
        why = "" if one.message is None else f": {one.message}"
        yield words.line(f"set by {one.actor}, {words.moment(one.at)}{why}", "dim")
        if one.policy is None:
            yield words.line("removed")
            continue
        body = one.policy.to_json()
        yield words.grid(["field", "value"], ((n, _shown(v)) for n, v in body.items()))


def effective(found: EffectivePolicy) -> Iterator[RenderableType]:
    """Show the effective policy of a table, and where each field comes from."""
    yield words.heading(f"policy of {found.table}")
    body = found.policy.to_json()
    constraints = body.pop("constraints", {})
    rows = [(name, _shown(value), found.sources[name]) for name, value in body.items()]
    rows += [
        (f"constraint {name}", _shown(value), found.constraints[name])
        for name, value in constraints.items()
    ]
    if rows:
        yield words.grid(["field", "value", "from"], rows)
    else:
        yield Text("No field is set: the defaults apply.")


def plan(found: Sequence[PolicyChange]) -> Iterator[str]:
    """Yield, for each pattern, a line with it and a line for each field that changes."""
    if not found:
        yield "The lake has these policies already: nothing has to change."
    marks = {"set": "+", "change": "~", "remove": "-"}
    for one in found:
        yield f"{marks[one.action]} {one.pattern}"
        for name, before, after in _differences(one.before, one.after):
            yield f"    {name}: {before or 'not set'} -> {after or 'not set'}"


def _differences(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> Iterator[tuple[str, str, str]]:
    old, new = before or {}, after or {}
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield name, _shown(old.get(name)), _shown(new.get(name))


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
