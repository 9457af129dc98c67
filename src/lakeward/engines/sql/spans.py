"""Values in the text of a statement that the parser does not read where they stand.

The parser takes `:v AS x` for a name and a value, and does not know `X'00ff'`. It reads `$v` in all
places, so it gets a text of the same length with that; the engine gets bound values for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from lakeward.errors import InvalidInput
from lakeward.model.parameters import Place

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_SHOWN: Final = 60


def octets(tokens: Sequence[Token]) -> list[tuple[Place, bytes]]:
    """Return the spans and values of literals such as `X'00ff'`; raise `InvalidInput`."""
    found = []
    for before, token in pairwise(tokens):
        is_literal = token.token_type.name == "STRING" and token.start == before.end + 1
        if not is_literal or before.token_type.name != "VAR" or before.text.lower() != "x":
            continue
        try:
            value = bytes.fromhex(token.text)
        except ValueError as error:
            what = f"X'{token.text[:_SHOWN]}' is not in hexadecimal digits."
            raise InvalidInput(what, hint="Give two digits for each byte.") from error
        found.append((Place(before.start, token.end + 1, "x"), value))
    return found


def readable(text: str, places: Sequence[Place]) -> str:
    """Return a text of the same length in which the parser reads each place as a parameter."""
    for place in places:
        given = text[place.start : place.end]
        if given[0] in ":xX":
            # The quotes of X'' leave room for a name of one letter.
            new = f"${given[1:]}" if given[0] == ":" else "$x".ljust(len(given))
            text = text[: place.start] + new + text[place.end :]
    return text
