"""Parses the text of an ORDER BY: columns with their directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lakeward.errors import InvalidExpression
from lakeward.model import arguments
from lakeward.model.expressions.names import resolve
from lakeward.model.schema import Schema
from lakeward.model.sorting import SortKey
from lakeward.model.types import Decimal, Field, Primitive

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_EMPTY: Final = "A column is missing in the order."
_HINT: Final = 'Write columns with their directions, such as "day DESC, id".'


def parse(order_by: str | Sequence[str], schema: Schema) -> list[SortKey]:
    """Return the keys of an order, as `lake.sql` understands it.

    NaN is greater than all numbers, and null greater than NaN, unless the text has NULLS FIRST or
    NULLS LAST. An `InvalidExpression` has the text as `expression`, and the name as `column`.
    """
    given = [order_by] if isinstance(order_by, str) else arguments.texts(order_by, "order_by")
    found: list[SortKey] = []
    for text in given:
        if text in schema.by_name:
            found.append(_key(schema.by_name[text], [], text))
            continue
        for term in _terms(text):
            names, rest = _split(term, text)
            column = resolve(names, schema)
            if column.path:
                what = f"Rows cannot be ordered by {'.'.join(names)!r}, which is inside a column."
                raise InvalidExpression(what, expression=text, column=".".join(names))
            found.append(_key(column.field, rest, text))
    if not found:
        raise InvalidExpression(_EMPTY, hint=_HINT)
    return found


def _terms(text: str) -> list[list[Token]]:
    """Return the tokens of each term of a text."""
    import sqlglot

    try:
        tokens = sqlglot.Dialect.get_or_raise("databricks").tokenize(text)
    except Exception as error:  # whatever a hostile text does to the tokenizer
        what = "The order is not valid SQL: a quote or a comment is left open."
        raise InvalidExpression(what, hint=_HINT, expression=text) from error
    terms: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type.name == "COMMA":
            terms.append([])
        else:
            terms[-1].append(token)
    return terms


def _split(term: list[Token], text: str) -> tuple[list[str], list[str]]:
    """Return the parts of a term's name, and the words behind it in upper case."""
    names: list[str] = []
    at = 0
    while at < len(term):
        quoted = term[at].token_type.name == "IDENTIFIER"
        if not quoted and not term[at].text.isidentifier():
            break
        names.append(term[at].text)
        at += 1
        if at == len(term) or term[at].token_type.name != "DOT":
            return names, [token.text.upper() for token in term[at:]]
        at += 1
    if not term:
        raise InvalidExpression(_EMPTY, hint=_HINT, expression=text)
    shown = " ".join(token.text for token in term)
    what = f"Rows can be ordered by columns only, not by {shown!r}."
    hint = "Put names that are not plain words in backticks."
    raise InvalidExpression(what, hint=hint, expression=text)


def _key(field: Field, words: list[str], text: str) -> SortKey:
    if not isinstance(field.type, Primitive | Decimal):
        what = f"Rows cannot be ordered by {field.name!r}: it is nested ({field.type})."
        raise InvalidExpression(what, expression=text, column=field.name)
    rest = list(words)
    descending = rest[:1] == ["DESC"]
    if rest[:1] in (["ASC"], ["DESC"]):
        del rest[0]
    nulls_first = descending
    if rest in (["NULLS", "FIRST"], ["NULLS", "LAST"]):
        nulls_first = rest == ["NULLS", "FIRST"]
    elif rest:
        what = f"The order has no meaning at {' '.join(rest)!r}, after {field.name!r}."
        raise InvalidExpression(what, hint=_HINT, expression=text)
    return SortKey(field, descending, nulls_first, nan_first=descending)
