"""Parses columns and types as users write them: `id int64 not null, tags list<string>`.

Types have the names that `lakeward show` prints. Names that are not plain words are in double
quotes or backticks.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

import pyarrow as pa

from lakeward.errors import InvalidInput
from lakeward.model.types import PRIMITIVES

_TOKEN: Final = re.compile(
    r"""\s*(?:"(?P<quoted>(?:[^"]|"")+)"|`(?P<ticked>[^`]+)`|(?P<word>\w+)|(?P<mark>[(),<>:]))""",
    re.UNICODE,
)
_NESTED: Final = ("decimal", "list", "map", "struct")
_DEEPEST: Final = 32


def parse_columns(text: str) -> pa.Schema:
    """The schema of a list of columns."""
    reader = _Reader(text)
    fields = [reader.column()]
    while reader.take(","):
        fields.append(reader.column())
    reader.end()
    return pa.schema(fields)


def parse_type(text: str) -> pa.DataType:
    """The type of a text such as `decimal(10,2)` or `list<string>`."""
    reader = _Reader(text)
    found = reader.type()
    reader.end()
    return found


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        position, whole = 0, text.rstrip()
        while position < len(whole):
            found = _TOKEN.match(whole, position)
            if found is None:
                self._refuse(f"{whole[position:].strip()[:20]!r} cannot be read")
            kind = found.lastgroup or ""
            self._tokens.append((kind, found[kind].replace('""', '"')))
            position = found.end()
        self._next = 0

    def column(self) -> pa.Field:
        """A name, a type, and perhaps `not null`."""
        name = self._name()
        kind = self.type()
        nullable = True
        if self._word("not"):
            if not self._word("null"):
                self._refuse("after `not` comes `null`")
            nullable = False
        return pa.field(name, kind, nullable)

    def take(self, mark: str) -> bool:
        """Whether the next token is this mark; it is then read."""
        if self._peek() != ("mark", mark):
            return False
        self._next += 1
        return True

    def end(self) -> None:
        """Nothing may follow."""
        if self._next < len(self._tokens):
            self._refuse(f"{self._tokens[self._next][1]!r} is one too many")

    def type(self, depth: int = 0) -> pa.DataType:
        """A type, with its parts."""
        if depth > _DEEPEST:
            self._refuse("types are nested too deeply")
        kind, word = self._pop("a type")
        word = word.lower()
        if kind != "word" or word not in (*PRIMITIVES, *_NESTED):
            self._refuse(f"{word!r} is not a type")
        match word:
            case "decimal":
                return self._decimal()
            case "list":
                self._need("<")
                element = self.type(depth + 1)
                self._need(">")
                return pa.list_(element)
            case "map":
                self._need("<")
                key = self.type(depth + 1)
                self._need(",")
                value = self.type(depth + 1)
                self._need(">")
                return pa.map_(key, value)
            case "struct":
                return self._struct(depth)
            case _:
                return PRIMITIVES[word]

    def _decimal(self) -> pa.DataType:
        self._need("(")
        precision = self._number()
        self._need(",")
        scale = self._number()
        self._need(")")
        try:
            return pa.decimal128(precision, scale)
        except ValueError:
            self._refuse(f"decimal({precision},{scale}) cannot be kept")

    def _struct(self, depth: int) -> pa.DataType:
        self._need("<")
        fields = []
        while True:
            name = self._name()
            self._need(":")
            fields.append(pa.field(name, self.type(depth + 1)))
            if not self.take(","):
                self._need(">")
                return pa.struct(fields)

    def _name(self) -> str:
        kind, word = self._pop("a column's name")
        if kind == "mark":
            self._refuse(f"{word!r} is not a column's name")
        return word

    def _number(self) -> int:
        _, word = self._pop("a number")
        if not word.isdecimal():
            self._refuse(f"{word!r} is not a number")
        return int(word)

    def _word(self, expected: str) -> bool:
        kind, word = self._peek()
        if kind != "word" or word.lower() != expected:
            return False
        self._next += 1
        return True

    def _need(self, mark: str) -> None:
        if not self.take(mark):
            self._refuse(f"`{mark}` is missing")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("", "")

    def _pop(self, expected: str) -> tuple[str, str]:
        token = self._peek()
        if token == ("", ""):
            self._refuse(f"{expected} is missing")
        self._next += 1
        return token

    def _refuse(self, reason: str) -> NoReturn:
        what = f"{self._text!r} cannot be understood: {reason}."
        types = ", ".join((*PRIMITIVES, "decimal(p,s)", "list<…>", "map<…, …>", "struct<…: …>"))
        raise InvalidInput(what, hint=f"Write them as `id int64 not null, …`. Types: {types}.")
