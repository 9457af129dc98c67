"""Parses SQL text to a bound expression: parsed, bound to a schema and checked.

The text never becomes part of a statement: engines get what `render` or the engine makes of the
bound tree. Constructs without a handler, and unknown options of known constructs, are refused, so
that no part of a text is silently dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from lakeward.errors import InvalidExpression
from lakeward.model.expressions import bind_conditions, bind_values, parsed
from lakeward.model.expressions.binder import Binder, Names, condition
from lakeward.model.expressions.functions import assign
from lakeward.model.expressions.names import resolve
from lakeward.model.expressions.nodes import Expression, cost
from lakeward.model.schema import Schema
from lakeward.model.types import Field

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

MAX_COST: Final = 1_000_000
_HANDLERS: Final = {**bind_values.HANDLERS, **bind_conditions.HANDLERS}
MAX_LENGTH: Final = 100_000
MAX_NESTING: Final = 32
_SHOWN: Final = 1000
_QUOTED: Final = 40
_EMPTY: Final = "The expression is empty."
_OPENING: Final = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE", "CASE"})
_CLOSING: Final = frozenset({"R_PAREN", "R_BRACKET", "R_BRACE", "END"})
_PREFIXES: Final = frozenset({"NOT", "DASH", "PLUS", "TILDE"})


class FilledText(str):
    """The text of an expression with values in place of its parameters and subqueries.

    It may be longer than `MAX_LENGTH`, which is for what users write.
    """

    __slots__ = ()


def check_length(text: str, *, besides: int = 0) -> None:
    """Raise `InvalidExpression` for a text that is too long for a user's expression.

    `besides` says how many of the characters are not the user's.
    """
    length = len(text) - besides
    if length > MAX_LENGTH and not isinstance(text, FilledText):
        what = f"The expression has {length} characters; at most {MAX_LENGTH} are allowed."
        raise InvalidExpression(what)


def parse(text: str, schema: Schema) -> Expression:
    """Return the boolean expression of a text, for a table of this schema.

    An `InvalidExpression` has the text as `expression`, and the name in question as `column`.
    """
    return _read(text, partial(bind, schema=schema))


def parse_condition(text: str, names: Names) -> Expression:
    """Return the boolean expression of a text; `names` finds its columns."""
    return _read(text, lambda tree: condition(bind_value(tree, names)))


def parse_value(text: str, names: Names, field: Field) -> Expression:
    """Return the expression of a value for a column, converted to the column's type."""
    return _read(text, lambda tree: assign(bind_value(tree, names), field))


def bind(tree: exp.Expr, schema: Schema) -> Expression:
    """Return the boolean expression of a parsed condition."""
    return condition(bind_value(tree, partial(resolve, schema=schema)))


def bind_value(tree: exp.Expr, names: Names) -> Expression:
    """Return the expression of a parsed text, of any type."""
    parsed.check_depth(tree)
    found = Binder(names, _HANDLERS).bind(tree)
    if cost(found) > MAX_COST:
        what = "The expression is too complicated."
        raise InvalidExpression(what, hint="Use IN or split it.")
    return found


def _read(text: str, bound: Callable[[exp.Expr], Expression]) -> Expression:
    shown = str(text)[:_SHOWN]
    try:
        return bound(_tree(text))
    except InvalidExpression as error:
        facts = {**error.facts, "expression": shown}
        raise InvalidExpression(error.what, hint=error.hint, **facts) from error.__cause__
    except RecursionError:
        what = "The expression is nested too deeply."
        raise InvalidExpression(what, hint="Use IN or split it.", expression=shown) from None


def _tree(text: str) -> exp.Expr:
    if not isinstance(text, str):
        what = f"An expression must be text, not {type(text).__name__}."
        raise InvalidExpression(what, hint='Write it as SQL, such as "id > 5".')
    if not text.strip():
        raise InvalidExpression(_EMPTY, hint="Write a condition, or true for all rows.")
    check_length(text)
    # The parser is slow to import, and most commands do not need it.
    import sqlglot
    from sqlglot import exp

    dialect = sqlglot.Dialect.get_or_raise("databricks")
    try:
        tokens = with_quotes(dialect.tokenize(text), text)
        _check_nesting(tokens)
        found = dialect.parser().parse_into(exp.Condition, tokens, text)
    except (InvalidExpression, RecursionError):
        raise
    except Exception as error:  # whatever a hostile text does to the parser
        what = f"The expression is not valid SQL: {reason(error)}."
        hint = "Put strings in single quotes, and names that are SQL words in backticks."
        raise InvalidExpression(what, hint=hint) from error
    trees = [tree for tree in found if tree is not None]
    if not trees:
        raise InvalidExpression(_EMPTY, hint="Write a condition, or true for all rows.")
    if len(trees) > 1:
        what = "Only one expression may be given."
        raise InvalidExpression(what, hint="Remove the semicolon.")
    return trees[0]


def with_quotes(tokens: list[Token], text: str) -> list[Token]:
    """Return the tokens with `'it''s'` as one string, as in standard SQL; the dialect has two."""
    out: list[Token] = []
    for token in tokens:
        last = out[-1] if out else token
        strings = last.token_type.name == token.token_type.name == "STRING"
        if strings and last.end + 1 == token.start and text[last.end] == text[token.start]:
            last.text += text[token.start] + token.text
            last.end = token.end
        else:
            out.append(token)
    return out


def _check_nesting(tokens: list[Token]) -> None:
    """Raise `InvalidExpression` for nesting that would exhaust the parser's native stack."""
    depth = run = 0
    for token in tokens:
        name = token.token_type.name
        run = run + 1 if name in _PREFIXES else 0
        depth += (name in _OPENING) - (name in _CLOSING)
        if depth + run > MAX_NESTING:
            what = f"The expression is nested deeper than {MAX_NESTING} levels."
            raise InvalidExpression(what, hint="Use IN or split it.")


def reason(error: Exception) -> str:
    """Return what the parser did not accept, and where."""
    details = getattr(error, "errors", None)
    if details:
        first = details[0]
        missing = str(first.get("description")).startswith(("Required", "Expecting"))
        problem = "something is missing after" if missing else "there is no place for"
        where = f"line {first.get('line')}, character {first.get('col')}"
        return f"{problem} {str(first.get('highlight'))[:_QUOTED]!r} at {where}"
    return "a quote or a comment is left open"
