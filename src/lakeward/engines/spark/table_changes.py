"""Finds calls of `table_changes('sales.orders', 3, 7)` in a statement, and their arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakeward.errors import InvalidInput

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_DIALECT: Final = "databricks"
_NAME: Final = "table_changes"


@dataclass(frozen=True, slots=True)
class ChangesCall:
    """One call in a text.

    Attributes:
        table: The table's name.
        since: The first version, or a time, a tag or a transaction as text.
        until: The last version, given like `since`; None if it is not given.
        start: Where the call begins in the text.
        end: Where the text continues after the call.
    """

    table: str
    since: int | str
    until: int | str | None
    start: int
    end: int


def changes_calls(text: str) -> list[ChangesCall]:
    """Return the calls in a statement, in order.

    Raises:
        InvalidInput: The arguments of a call are not a name and one or two literals.
    """
    given: object = text
    if not isinstance(given, str) or _NAME not in given.lower():
        return []
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        tokens = sqlglot.tokenize(text, dialect=_DIALECT)
    except SqlglotError:
        return []  # Parsing the statement reports it.
    return [
        _call(text, tokens, place)
        for place, token in enumerate(tokens[:-1])
        if token.text.lower() == _NAME and tokens[place + 1].text == "(" and not _quoted(token)
    ]


def replaced(text: str, calls: list[tuple[ChangesCall, str]]) -> str:
    """Return the text with names in place of calls."""
    out, done = [], 0
    for call, name in calls:
        out += [text[done : call.start], name]
        done = call.end
    return "".join([*out, text[done:]])


def _call(text: str, tokens: list[Token], place: int) -> ChangesCall:
    given: list[Token] = []
    for position in range(place + 2, len(tokens)):
        token, is_argument = tokens[position], (position - place) % 2 == 0
        if not is_argument and token.text == ")" and not _quoted(token):
            break
        if is_argument:
            given.append(token)
        elif token.text != "," or _quoted(token):
            raise _refused(text)
    else:
        raise _refused(text)
    if not 2 <= len(given) <= 3 or not _quoted(given[0]):
        raise _refused(text)
    values = [_value(text, token) for token in given[1:]]
    until = values[1] if len(values) > 1 else None
    start, end = int(tokens[place].start), int(tokens[position].end) + 1
    return ChangesCall(given[0].text, values[0], until, start, end)


def _value(text: str, token: Token) -> int | str:
    if _quoted(token):
        return str(token.text)
    if token.text.isascii() and token.text.isdecimal():
        return int(token.text)
    raise _refused(text)


def _quoted(token: Token) -> bool:
    return token.token_type.name in ("STRING", "IDENTIFIER")


def _refused(text: str) -> InvalidInput:
    what = "table_changes takes a table's name in quotes, and one or two versions, times or tags."
    hint = "Write literals: table_changes('sales.orders', 3, 7), or '2026-01-31' for a time."
    return InvalidInput(what, hint=hint, statement=text)
