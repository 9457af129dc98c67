"""Applies the rules of `tx.alter` to definitions that other engines changed on a named branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.arrow.conform import check_required
from lakeward.formats.net import Net
from lakeward.formats.registry import format_of
from lakeward.log import files
from lakeward.model.constraints import PREFIXES
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import Alteration, SetNullable
from lakeward.model.evolution.between import changes_between
from lakeward.model.evolution.paths import find
from lakeward.model.file import LoggedFile
from lakeward.read.scan import read_files
from lakeward.write.alter.alter import altered, check_rows
from lakeward.write.branch.base import Branch
from lakeward.write.plan.change import Change


def check_evolution(context: LakeContext, branch: Branch, change: Change, net: Net) -> Net:
    """Return the branch's net effect, if `tx.alter` could have made its definition.

    Keys and other constraints of the result have the new names of columns. Raises `InvalidInput` or
    a subclass, with the column and the reason; rows of the branch are read if a change depends on
    them, and then rows that others add to the table are a conflict.
    """
    new, table = net.definition, str(change.head.name)
    if new is None:
        return net
    asked = changes_between(change.definition, new, format_of(change.head).keeps)

    def rows(columns: Sequence[str], _: object) -> pa.RecordBatchReader:
        return _rows(context, branch, net, new, columns)

    def look(one: Alteration, after: Definition) -> None:
        if isinstance(one, SetNullable):
            column = find(after.schema, one.path).column
            final = new.schema.by_id[column.id]
            for batch in rows([final.name], None):
                check_required(final, pa.chunked_array([batch.column(0)]), table)
        else:
            check_rows(one, new, new, table, rows)

    step = change
    for one in asked:
        found = altered(context, step, one, look, lambda: False)
        step = replace(step, definition=found.definition)
        if found.looked and None not in change.scopes:
            # Rows that others add meanwhile would not have been looked at.
            change.scopes.append(None)
    held = {k: v for k, v in step.definition.properties.items() if k.startswith(PREFIXES)}
    others = {k: v for k, v in new.properties.items() if not k.startswith(PREFIXES)}
    return replace(net, definition=replace(new, properties={**others, **held}))


def _rows(
    context: LakeContext, branch: Branch, net: Net, new: Definition, columns: Sequence[str]
) -> pa.RecordBatchReader:
    """Return columns of the branch's rows, by a definition in which all columns are nullable."""
    fields = tuple(replace(f, nullable=True) for f in new.schema)
    relaxed = replace(new, schema=replace(new.schema, fields=fields))
    gone = {(f.added, f.ordinal) for f in net.removed}
    head = branch.head
    with context.database.read() as session:
        base = files.at(session, head.table_id, head.version)
        kept = [f for f in base if (f.added, f.ordinal) not in gone]
    own = [LoggedFile(f, head.version + 1, n) for n, f in enumerate(net.added)]
    return read_files(context.storage, head, relaxed, [*kept, *own], columns=columns)
