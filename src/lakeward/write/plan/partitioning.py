"""What users say in `partition_by`, as the format at hand keeps it.

`day(ts)` is a generated column of a Delta table, `ts_day`, that the table is partitioned by. In an
Iceberg table it is a hidden partition field, as every other one there; these count from 1000 on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakeward.errors import InvalidInput
from lakeward.formats.delta.generated import generated_field
from lakeward.formats.delta.schema import EXPRESSION
from lakeward.model.derived import Derived
from lakeward.model.schema import Schema, indexable
from lakeward.model.transform import SUFFIXES, TIMES, Rules, Term, Transform, parse_term
from lakeward.model.types import Field

FIRST_PARTITION_ID: Final = 1000


@dataclass(frozen=True)
class Partitioning:
    """How a new table is partitioned.

    Attributes:
        schema: The columns, with those that Delta generates.
        partition_by: Ids of the partition values, in order.
        derived: Hidden partition values by their ids; of generated columns the schema tells.
    """

    schema: Schema
    partition_by: tuple[int, ...]
    derived: Mapping[int, Derived] = field(default_factory=dict)


def partitioning(
    schema: Schema,
    terms: Sequence[str],
    *,
    format: str,  # noqa: A002  the name users know
    guard: bool,
) -> Partitioning:
    """The partitioning that a user asked for, checked against the columns.

    Args:
        schema: The columns that the user named.
        terms: Columns, and transforms of them as `parse_term` reads them.
        format: Of the table.
        guard: Whether only the lake will ever write the table.

    Raises:
        InvalidInput: A term makes no sense, or not together with the columns and other terms.
    """
    found = [_source(term, schema) for term in terms]
    repeated = [(t.name, f.id) for t, f in found]
    if len(set(repeated)) < len(repeated):
        what = "A column is named twice in partition_by."
        raise InvalidInput(what, hint="Leave one of them out.")
    if format == "iceberg":
        return _hidden(schema, found)
    return _generated(schema, found, guard=guard)


def _source(text: str, schema: Schema) -> tuple[Term, Field]:
    # A column may be called `day(ts)`: what is there counts first.
    term = Term("identity", None, text) if text in schema.by_name else parse_term(text)
    source = schema.by_name.get(term.column)
    if source is None:
        what = f"There is no column {term.column!r} to partition by."
        hint = f"The columns are {', '.join(schema.names)}."
        raise InvalidInput(what, hint=hint, column=term.column)
    return term, source


def _hidden(schema: Schema, terms: Sequence[tuple[Term, Field]]) -> Partitioning:
    derived: dict[int, Derived] = {}
    taken: dict[str, str] = {}
    times: set[int] = set()
    for number, (term, source) in enumerate(terms):
        transform = Transform(term.name, term.width, Rules.ICEBERG)
        transform.check(source.type, source.name)
        if term.name in TIMES and source.id in times:
            what = f"{transform.of(source.name)} says again what another term of partition_by says."
            raise InvalidInput(what, hint="Keep the finest of them.", column=source.name)
        times |= {source.id} if term.name in TIMES else set()
        name = source.name + SUFFIXES[term.name]
        _check_name(name, transform, source, schema, taken)
        indexed = indexable(transform.result(source.type))
        derived[-FIRST_PARTITION_ID - number] = Derived(source.id, transform, name, indexed)
    return Partitioning(schema, tuple(derived), derived)


def _generated(schema: Schema, terms: Sequence[tuple[Term, Field]], *, guard: bool) -> Partitioning:
    ids: list[int] = []
    for term, source in terms:
        transform = Transform(term.name, term.width, Rules.SPARK)
        if term.name == "identity":
            transform.check(source.type, source.name)
            ids.append(source.id)
            continue
        name = source.name + SUFFIXES[term.name]
        new = generated_field(schema.last_id + 1, name, transform, source, guard=guard)
        there = schema.by_name.get(name)
        if there is not None and there.metadata.get(EXPRESSION) == new.metadata[EXPRESSION]:
            ids.append(there.id)
            continue
        _check_name(name, transform, source, schema, {})
        schema = Schema((*schema.fields, new), new.id)
        ids.append(new.id)
    if len(set(ids)) < len(ids):
        what = "A column is named twice in partition_by."
        raise InvalidInput(what, hint="Leave one of them out.")
    if ids and len(ids) >= len(schema):
        what = "A table needs a column that it is not partitioned by."
        raise InvalidInput(what)
    return Partitioning(schema, tuple(ids))


def _check_name(
    name: str, transform: Transform, source: Field, schema: Schema, taken: dict[str, str]
) -> None:
    """Refuse a name that something else has; a plain column partitions under its own."""
    term = transform.of(source.name)
    own = transform.name == "identity"
    clash = next((f.name for f in schema.fields if f.name.lower() == name.lower()), None)
    other = taken.setdefault(name.lower(), term)
    if other is not term or (clash is not None and not own):
        what = f"{term} is kept under the name {name!r}, which "
        what += f"column {clash!r} has." if clash is not None else f"{other} has."
        raise InvalidInput(what, hint="Rename the column.", column=clash or source.name)
