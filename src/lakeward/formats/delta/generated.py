"""Generated columns: Delta's expressions for columns that are computed from other columns.

A partition transform is a column with one of the expressions here, which Spark evaluates to the
values that Lakeward stores. These expressions, and others with the same meaning, are recognised in
foreign tables. Any other expression is computed if Lakeward's expression language has it; otherwise
the embedded engine cannot write the table.

Spark computes times in the session's time zone, so the expressions mean UTC only in a session in
UTC. A table that was guarded from its first version on has no other writers: the metadata of its
generated columns says UTC, and only these columns are exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from lakeward.errors import InvalidInput
from lakeward.formats.delta import identity
from lakeward.formats.delta.protocol import is_guarded
from lakeward.formats.delta.schema import EXPRESSION
from lakeward.model.bucket import scaled, unscaled
from lakeward.model.definition import Definition
from lakeward.model.derived import Derived
from lakeward.model.generated import expression_of, is_computable
from lakeward.model.quoting import identifier
from lakeward.model.schema import GENERATED_AS, Schema
from lakeward.model.transform import STRING, TIMES, Rules, Transform
from lakeward.model.types import Decimal, Field, Primitive, Type

ZONE: Final = "lakeward.zone"
UTC: Final = "UTC"
_MAX_PRECISION: Final = 38
_FORMS: Final = {
    "day": ("CAST({c} AS DATE)", "TO_DATE({c})", "DATE({c})"),
    "year": ("YEAR({c})", "EXTRACT(YEAR FROM {c})"),
    "month": ("DATE_FORMAT({c}, 'yyyy-MM')",),
    "hour": ("DATE_FORMAT({c}, 'yyyy-MM-dd-HH')",),
    "bucket": ("pmod(hash({c}), {n})",),
}
"""The expressions of each transform: the first is written, the others are recognised."""
_CUT: Final = (
    "SUBSTRING({c}, 1, {n})",
    "SUBSTR({c}, 1, {n})",
    "SUBSTRING({c}, 0, {n})",
    "SUBSTR({c}, 0, {n})",
    "LEFT({c}, {n})",
)
_MULTIPLE: Final = "{c} - pmod({c}, {n})"
_NARROW: Final = {"int8": "TINYINT", "int16": "SMALLINT"}
_TOKEN: Final = re.compile(r"`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*')|(\w+(?:\.[0-9]+)?)|(\S)")


def generated_field(
    own_id: int, name: str, transform: Transform, source: Field, *, guard: bool
) -> Field:
    """Return a column that holds the partition values of the column `source`, by Spark's rules.

    With `guard` only the lake will ever write the table. Raises `InvalidInput` if the transform
    does not fit the column's type, or Spark would round.
    """
    transform.check(source.type, source.name)
    kind = source.type
    if (
        transform.name == "truncate"
        and isinstance(kind, Decimal)
        and kind.precision == _MAX_PRECISION
    ):
        what = f"{transform.of(source.name)} cannot partition a table: Spark rounds {kind}."
        hint = f"Use a decimal of fewer than {_MAX_PRECISION} digits."
        raise InvalidInput(what, hint=hint, column=source.name, transform=str(transform))
    metadata: dict[str, Any] = {EXPRESSION: expression(transform, source)}
    if guard and transform.name in TIMES:
        metadata[ZONE] = UTC
    return Field(own_id, name, transform.result(kind), indexed=True, metadata=metadata)


def expression(transform: Transform, source: Field) -> str:
    """Return the Spark expression of a generated column for a transform of `source`."""
    return next(_forms(transform, source))


def derived_of(schema: Schema, protocol: Mapping[str, Any]) -> dict[int, Derived]:
    """Return the generated columns of a schema whose expressions are transforms, by column id."""
    out: dict[int, Derived] = {}
    for field in schema.fields:
        text = field.metadata.get(EXPRESSION)
        found = _recognised(text, field.type, schema) if isinstance(text, str) else None
        if found is not None:
            source, transform = found
            marked = field.metadata.get(ZONE) == UTC and is_guarded(protocol)
            utc = marked or transform.name not in TIMES
            out[field.id] = Derived(source.id, transform, field.name, utc=utc)
    return out


def computed_of(schema: Schema, derived: Mapping[int, Derived]) -> dict[int, str]:
    """Return generated columns that are not in `derived` and that Lakeward computes, by id."""
    return {
        field.id: field.metadata[EXPRESSION]
        for field in schema.fields
        if field.id not in derived
        and isinstance(field.metadata.get(EXPRESSION), str)
        and is_computable(field.metadata[EXPRESSION], field, schema)
    }


def spelled(schema: Schema) -> Schema:
    """Return a new table's schema with its generated and identity columns as Delta stores them.

    Raises `InvalidExpression` for a column whose values Lakeward cannot compute.
    """
    fields = []
    for field in schema.fields:
        text = field.metadata.get(GENERATED_AS)
        if text is None:
            fields.append(identity.spelled(field))
            continue
        kept = {k: v for k, v in field.metadata.items() if k != GENERATED_AS}
        expression_of(text, field, schema)
        fields.append(replace(field, metadata={**kept, EXPRESSION: text}))
    return Schema(tuple(fields), schema.last_id)


def with_generated(definition: Definition) -> Definition:
    """Return the definition with `derived`, `computed` and `identity` set from its columns."""
    derived = derived_of(definition.schema, definition.protocol)
    return replace(
        definition,
        derived=derived,
        computed=computed_of(definition.schema, derived),
        identity=identity.identity_of(definition.schema),
    )


def without_marks(schema: Schema) -> Schema:
    """Return the schema without the UTC marks, for tables that others may have written."""
    if not any(ZONE in f.metadata for f in schema.fields):
        return schema
    fields = tuple(
        replace(f, metadata={k: v for k, v in f.metadata.items() if k != ZONE})
        for f in schema.fields
    )
    return Schema(fields, schema.last_id)


def _forms(transform: Transform, source: Field) -> Iterator[str]:
    column = identifier(source.name)
    kind, width = source.type, transform.width or 0
    if transform.name != "truncate":
        for form in _FORMS[transform.name]:
            yield form.format(c=column, n=width)
    elif kind == STRING:
        for form in _CUT:
            yield form.format(c=column, n=width)
    elif isinstance(kind, Decimal):
        multiple = _MULTIPLE.format(c=column, n=scaled(kind, width))
        yield f"CAST({multiple} AS DECIMAL({kind.precision},{kind.scale}))"
    else:
        multiple = _MULTIPLE.format(c=column, n=width)
        narrow = _NARROW.get(kind.name) if isinstance(kind, Primitive) else None
        yield multiple if narrow is None else f"CAST({multiple} AS {narrow})"


def _recognised(text: str, kind: Type, schema: Schema) -> tuple[Field, Transform] | None:
    tokens = _tokens(text)
    words = set(tokens)
    # Spark ignores case in names.
    sources = [f for f in schema.fields if f.name.lower() in words]
    for source in sources:
        for transform in _candidates(tokens, source.type):
            same = any(_tokens(s) == tokens for s in _forms(transform, source))
            if same and transform.result(source.type) == kind:
                return source, transform
    return None


def _candidates(tokens: list[str], source: Type) -> Iterator[Transform]:
    """Yield every transform that an expression with these tokens may be."""
    widths = [_width(t, source) for t in tokens if t[0].isdigit()]
    found = [Transform(name, None, Rules.SPARK) for name in TIMES]
    for width in filter(None, widths):
        found += [Transform(name, width, Rules.SPARK) for name in ("bucket", "truncate")]
    for transform in found:
        try:
            transform.check(source, "")
        except InvalidInput:
            continue
        yield transform


def _width(token: str, source: Type) -> int | None:
    if isinstance(source, Decimal) and "." in token:
        return unscaled(source, token)
    return int(token) if token.isdecimal() and len(token) <= 10 else None


def _tokens(text: str) -> list[str]:
    """Return the tokens of an expression: words in lower case without quotes, literals, signs."""
    out = []
    for quoted, literal, word, sign in _TOKEN.findall(text):
        out.append(literal or (quoted.replace("``", "`") or word).lower() or sign)
    return out
