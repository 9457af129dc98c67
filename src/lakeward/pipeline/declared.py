"""Whether tables that exist are what the steps of a pipeline declare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import SchemaMismatch
from lakeward.log import heads
from lakeward.log.database import Session
from lakeward.model.definition import Definition
from lakeward.model.types import Field
from lakeward.pipeline.declaration import Pipeline, Step
from lakeward.write.tables.create import define


def check_declared(session: Session, context: LakeContext, pipeline: Pipeline) -> None:
    """Refuse a run whose steps declare other tables than there are.

    A run does not change the columns, format, partitioning or checks of a table that exists. One
    that went on would leave out a new column, or not check what is declared.

    Raises:
        SchemaMismatch: Says which table, and what differs.
    """
    for step in pipeline.steps():
        head = heads.find(session, step.target)
        if head is None:
            continue
        found = _differences(step.table, head.format, context.definition(session, head))
        if found:
            raise _mismatch(step, found)


def _differences(table: Mapping[str, Any], found_format: str, has: Definition) -> dict[str, str]:
    """What differs, by column or option."""
    if table["format"] != found_format:
        return {"format": f"format {table['format']} (the table is {found_format})"}
    by = table["partition_by"]
    asked = define(
        table["schema"],
        table["format"],
        partition_by=[by] if isinstance(by, str) else list(by),
        properties=dict(table["properties"] or {}),
        constraints=dict(table["constraints"] or {}),
        comment=table["comment"],
        guard=True,
    )
    out = {}
    for name, field in asked.schema.by_name.items():
        own = has.schema.by_name.get(name)
        if own is None:
            out[name] = f"{name} {field.type} (the table has no such column)"
        elif _spelled(own) != _spelled(field):
            out[name] = f"{name} {_spelled(field)} (the table has {_spelled(own)})"
    for name in has.schema.by_name:
        if name not in asked.schema.by_name:
            out[name] = f"no {name} (the table has {_spelled(has.schema.by_name[name])})"
    if asked.partitioning != has.partitioning:
        asks, has_them = (", ".join(d.partitioning) or "nothing" for d in (asked, has))
        out["partition_by"] = f"partition_by {asks} (the table has {has_them})"
    for name, check in asked.constraints.items():
        if has.constraints.get(name) != check:
            own_check = has.constraints.get(name, "none of this name")
            out[name] = f"constraint {name}: {check} (the table has {own_check})"
    return out


def _spelled(field: Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"


def _mismatch(step: Step, found: Mapping[str, str]) -> SchemaMismatch:
    what = f"The step for {step.target} declares another table than there is:"
    hint = (
        "A run changes no table's definition. Declare the table as it is, or write into a new one."
    )
    return SchemaMismatch(
        f"{what} {'; '.join(found.values())}.",
        hint=hint,
        table=str(step.target),
        columns=list(found),
    )
