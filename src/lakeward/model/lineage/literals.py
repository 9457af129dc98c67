"""Removes the values from the text of a statement before the text is stored for lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot.tokenizer_core import Token

_STRINGS: Final = frozenset(
    {
        "BIT_STRING",
        "BYTE_STRING",
        "HEREDOC_STRING",
        "HEX_STRING",
        "NATIONAL_RAW_STRING",
        "NATIONAL_STRING",
        "RAW_STRING",
        "STRING",
        "UNICODE_STRING",
    }
)
_BY_POSITION: Final = frozenset({"GROUP_BY", "ORDER_BY"})
"""Clauses in which a whole number is the position of a column."""
_MOST_DIGITS: Final = 3


def without_literals(text: str, dialect: str) -> str:
    """Return a statement without its comments, with empty strings and zeros as literals.

    Positions of columns in GROUP BY and ORDER BY are kept. The result is empty if the text cannot
    be split into tokens.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        tokens = sqlglot.tokenize(text, dialect=dialect)
    except SqlglotError:
        return ""
    positions = _positions(tokens)
    out: list[str] = []
    at, before = 0, ""
    for number, token in enumerate(tokens):
        if token.start < at:
            # A number with a suffix, such as 10L, has several tokens at one place.
            continue
        kind = token.token_type.name
        written = text[token.start : token.end + 1]
        if kind in _STRINGS:
            # Strings beside each other are one string; an interval needs a number.
            written = "" if before in _STRINGS else "'1'" if before == "INTERVAL" else "''"
        elif kind == "NUMBER" and number not in positions:
            written = "0"
        out += [" " if token.start > at and out else "", written]
        at, before = token.end + 1, kind
    return "".join(out)


def _positions(tokens: Sequence[Token]) -> set[int]:
    """Return the tokens that are positions of columns, by their numbers."""
    found: set[int] = set()
    clauses: list[bool] = [False]
    for number, token in enumerate(tokens):
        kind = token.token_type.name
        before = tokens[number - 1].token_type.name if number else ""
        if kind == "L_PAREN":
            clauses.append(False)
        elif kind == "R_PAREN":
            clauses = clauses[:-1] or [False]
        elif kind in _BY_POSITION:
            clauses[-1] = True
        elif kind in ("SELECT", "LIMIT", "UNION", "HAVING"):
            clauses[-1] = False
        elif clauses[-1] and before in (*_BY_POSITION, "COMMA") and _is_position(token):
            found.add(number)
    return found


def _is_position(token: Token) -> bool:
    is_whole = token.token_type.name == "NUMBER" and token.text.isdecimal()
    return is_whole and len(token.text) <= _MOST_DIGITS
