"""Parses SQL token by token, from left to right, for statements and their clauses.

For statements of Spark and Iceberg that no available parser supports. No part of a text is ignored
silently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from lakeward.errors import InvalidInput
from lakeward.model.expressions.where import with_quotes

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_BEFORE: Final = "x "
_QUOTED: Final = ("IDENTIFIER", "STRING")
"""Tokens of quoted names and texts, which are no words of SQL."""
_T = TypeVar("_T")


class Words:
    """The tokens of a text, each of which is read once."""

    def __init__(self, text: str, hint: str) -> None:
        import sqlglot

        self._text = f"{_BEFORE}{text}"
        self._hint = hint
        try:
            # Put a word in front, because the tokenizer takes some first words for whole commands.
            found = sqlglot.Dialect.get_or_raise("databricks").tokenize(self._text)
            tokens = with_quotes(found, self._text)
        except Exception as error:  # the tokenizer may raise anything for hostile text
            what = f"{text!r} is not valid SQL: a quote or a comment is left open."
            raise InvalidInput(what) from error
        self._tokens: list[Token] = tokens[1:]
        while self._tokens and self._tokens[-1].text == ";":
            self._tokens.pop()
        self._next = 0

    @property
    def is_done(self) -> bool:
        """Whether all words were read."""
        return self._next >= len(self._tokens)

    def end(self) -> None:
        """Raise an error unless all words were read."""
        if not self.is_done:
            self.refuse(f"{self._tokens[self._next].text!r} is not expected here")

    def words(self, *words: str) -> bool:
        """Read these words, or this mark, if they come next; return whether they were read."""
        place, left = self._next, list(words)
        while left and place < len(self._tokens):
            # The tokenizer joins some words, such as FOREIGN KEY, into one token.
            token = self._tokens[place]
            read = token.text.upper().split() or [""]
            if token.token_type.name in _QUOTED or left[: len(read)] != read:
                return False
            del left[: len(read)]
            place += 1
        if left:
            return False
        self._next = place
        return True

    def one_of(self, *words: str) -> str | None:
        """Read the next word if it is one of these; return it or None."""
        return next((word for word in words if self.words(word)), None)

    def one_before_name(self, *words: str) -> str | None:
        """Read the next word if it is one of these and a name follows; return it or None.

        Otherwise the word is itself the name, or the first part of one.
        """
        place, found = self._next, self.one_of(*words)
        if found is not None and (self.is_done or self.next_is(".")):
            self._next, found = place, None
        return found

    def need(self, word: str) -> None:
        """Read a word; raise an error if another one comes next."""
        if not self.words(word):
            self.refuse(f"{word} is missing")

    def path(self) -> str:
        """Read a column name or dotted path, as `evolution.paths` takes it."""
        names = self.names()
        plain = [n if "." not in n and "`" not in n else f"`{n.replace('`', '``')}`" for n in names]
        return ".".join(plain)

    def names(self) -> tuple[str, ...]:
        """Read a dotted name; return its parts."""
        names = [self.name()]
        while self.words("."):
            names.append(self.name())
        return tuple(names)

    def name(self) -> str:
        """Read a name, with or without backticks."""
        token = self._pop("a name")
        if not token.text or token.token_type.name in ("STRING", "L_PAREN", "R_PAREN", "COMMA"):
            self.refuse(f"{token.text!r} is not a name")
        return token.text

    def string(self) -> str:
        """Read a quoted string."""
        token = self._pop("a text in quotes")
        if token.token_type.name != "STRING":
            self.refuse(f"{token.text!r} must stand in single quotes")
        return token.text

    def string_next(self) -> bool:
        """Return whether a quoted string comes next, without reading it."""
        token = self._peek()
        return token is not None and token.token_type.name == "STRING"

    def next_is(self, mark: str) -> bool:
        """Return whether a mark or a word comes next, without reading it."""
        token = self._peek()
        return token is not None and token.text.upper() == mark

    def listed(self, one: Callable[[], _T]) -> list[_T]:
        """Read one item, or several in brackets or separated by commas."""
        bracket = self.words("(")
        found = [one()]
        while self.words(","):
            found.append(one())
        if bracket and not self.words(")"):
            self.refuse("a bracket is not closed")
        return found

    def type(self) -> str:
        """Read the text of a type, with its parameters."""
        first = self._pop("a type")
        end, depth = first.end, 0
        while True:
            token = self._peek()
            text = "" if token is None else token.text
            if text in ("<", "("):
                depth += 1
            elif text and set(text) <= {">", ")"} and depth:
                depth -= len(text)
            elif not depth:
                break
            if token is None:
                self.refuse("a type is not complete")
            end = token.end
            self._next += 1
        return self._text[first.start : end + 1]

    def literal(self) -> str:
        """Read the text of a value, up to the next word of the clause."""
        first = self._pop("a value")
        end, depth = first.end, int(first.text == "(")
        while (token := self._peek()) is not None:
            word = token.text.upper()
            if not depth and word in (",", ")", "AFTER", "FIRST", "COMMENT", "NOT"):
                break
            depth += (token.text == "(") - (token.text == ")")
            end = token.end
            self._next += 1
        return self._text[first.start : end + 1]

    def rest(self, expected: str = "a term") -> str:
        """Read all remaining text."""
        start = self._pop(expected).start
        self._next = len(self._tokens)
        return self._text[start : self._tokens[-1].end + 1].strip()

    def bracketed(self, expected: str) -> str:
        """Read the text between the next bracket and the one that closes it."""
        if not self.words("("):
            self.refuse(f"{expected} stands in brackets")
        start, depth = self._pop(expected), 1
        token = start
        while True:
            kind = token.token_type.name
            depth += (kind == "L_PAREN") - (kind == "R_PAREN")
            if depth == 0:
                return self._text[start.start : token.start].strip()
            token = self._pop("a closing bracket")

    def skip_to(self, word: str) -> tuple[int, int]:
        """Read up to a word outside of brackets; return the word's start and end in the text."""
        depth = 0
        while True:
            token = self._pop(word)
            kind = token.token_type.name
            depth += (kind == "L_PAREN") - (kind == "R_PAREN")
            if not depth and token.text.upper() == word and kind != "STRING":
                return self._span(token)

    def next_star(self) -> tuple[str, int, int] | None:
        """Return the word before the next star, and the star's start and end; None for no more."""
        while not self.is_done:
            token = self._pop("a star")
            if token.token_type.name == "STAR":
                before = self._tokens[self._next - 2].text.upper() if self._next > 1 else ""
                return before, *self._span(token)
        return None

    def _span(self, token: Token) -> tuple[int, int]:
        return token.start - len(_BEFORE), token.end + 1 - len(_BEFORE)

    def refuse(self, reason: str) -> NoReturn:
        """Raise an error that the text cannot be understood."""
        what = f"`{self._text.removeprefix(_BEFORE)}` cannot be understood: {reason}."
        raise InvalidInput(what, hint=self._hint)

    def _peek(self) -> Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _pop(self, expected: str) -> Token:
        token = self._peek()
        if token is None:
            self.refuse(f"{expected} is missing")
        self._next += 1
        return token
