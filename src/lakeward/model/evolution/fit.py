"""Finds why files that were written under one definition are wrong under a later one.

Columns are compared by their ids. Files may lack nullable columns, have columns that were dropped,
and have values of a narrower type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakeward.model.constraints import PREFIXES, plain_checks
from lakeward.model.definition import Definition
from lakeward.model.evolution.paths import parts_of
from lakeward.model.evolution.widening import widens
from lakeward.model.types import Decimal, Field, Primitive


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why rows written for an older definition do not fit the table after another one altered it.

    Attributes:
        reason: What the other transaction did, as in "renamed the column".
        column: The column that was changed, if any.
    """

    reason: str
    column: str | None = None


def misfits(old: Definition, new: Definition, *, looked: bool = False) -> Iterator[Misfit]:
    """Yield the reasons why files of an old definition are wrong under a new one.

    `looked`: the rows of the files were checked, have all required values and satisfy all checks.
    """
    yield from _fields(old.schema.fields, new.schema.fields, "", looked=looked)
    terms = (old.partitioning, new.partitioning)
    if old.partition_by != new.partition_by:
        yield Misfit(f"partitioned the table by {', '.join(terms[1]) or 'nothing'}")
    generated = [
        ({i: d for i, d in d.derived.items() if i > 0}, dict(d.computed)) for d in (old, new)
    ]
    if generated[0] != generated[1]:
        yield Misfit("changed its generated columns")
    checks = plain_checks(old)
    for name, text in () if looked else plain_checks(new).items():
        if checks.get(name) != text:
            yield Misfit(f"added the check {name} ({text})")
    for key, text in () if looked else new.properties.items():
        if key.startswith(PREFIXES) and old.properties.get(key) != text:
            yield Misfit(f"changed the constraint {key.rpartition('.')[2]}")


def _fields(
    old: Sequence[Field], new: Sequence[Field], around: str, *, looked: bool
) -> Iterator[Misfit]:
    before = {f.id: f for f in old}
    for field in new:
        path = f"{around}{field.name}"
        known = before.get(field.id)
        if known is None:
            if not field.nullable and not looked:
                yield Misfit(f"added the required column {path}", path)
            continue
        if known.nullable and not field.nullable and not looked:
            yield Misfit(f"made column {path} required", path)
        if isinstance(field.type, Primitive | Decimal):
            if not widens(known.type, field.type):
                yield Misfit(f"changed column {path} from {known.type} to {field.type}", path)
        elif type(known.type) is not type(field.type):
            yield Misfit(f"changed column {path} to {field.type}", path)
        else:
            yield from _fields(
                parts_of(known.type), parts_of(field.type), f"{path}.", looked=looked
            )
