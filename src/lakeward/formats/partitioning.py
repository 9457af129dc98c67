"""The partitioning of a new table, and the terms of `partition_by` that define it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakeward.errors import InvalidInput
from lakeward.model.derived import Derived
from lakeward.model.schema import Schema
from lakeward.model.transform import Term, Transform, parse_term
from lakeward.model.types import Field


@dataclass(frozen=True)
class Partitioning:
    """The partitioning of a new table.

    Attributes:
        schema: The columns, including those that are generated for Delta.
        partition_by: Ids of the partition values, in order.
        derived: Partition values that are not columns, by their ids.
    """

    schema: Schema
    partition_by: tuple[int, ...]
    derived: Mapping[int, Derived] = field(default_factory=dict)


def named_terms(schema: Schema, terms: Sequence[str]) -> list[tuple[Term, Field]]:
    """Parse the terms of `partition_by`; return each with its column.

    Raises:
        InvalidInput: A term cannot be parsed, refers to no column, or occurs twice.
    """
    found = [_source(term, schema) for term in terms]
    repeated = [(t.name, f.id) for t, f in found]
    if len(set(repeated)) < len(repeated):
        what = "A column is named twice in partition_by."
        raise InvalidInput(what, hint="Leave one of them out.")
    return found


def _source(text: str, schema: Schema) -> tuple[Term, Field]:
    # A column may be called `day(ts)`: an existing column takes precedence.
    term = Term("identity", None, text) if text in schema.by_name else parse_term(text)
    source = schema.by_name.get(term.column)
    if source is None:
        what = f"There is no column {term.column!r} to partition by."
        hint = f"The columns are {', '.join(schema.names)}."
        raise InvalidInput(what, hint=hint, column=term.column)
    return term, source


def check_partition_name(
    name: str, transform: Transform, source: Field, schema: Schema, taken: dict[str, str]
) -> None:
    """Raise `InvalidInput` if a column or another term has the name of a partition value.

    `taken` maps the names of earlier partition values to their terms; the new one is added.
    """
    term = transform.of(source.name)
    own = transform.name == "identity"
    clash = next((f.name for f in schema.fields if f.name.lower() == name.lower()), None)
    other = taken.setdefault(name.lower(), term)
    if other is not term or (clash is not None and not own):
        what = f"{term} is kept under the name {name!r}, which "
        what += f"column {clash!r} has." if clash is not None else f"{other} has."
        raise InvalidInput(what, hint="Rename the column.", column=clash or source.name)
