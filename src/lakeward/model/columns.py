"""Parses columns and types as users write them: `id int64 not null, tags list<string>`.

Types have the names that `lakeward show` prints, or the usual SQL names: `bigint`, `varchar(20)`,
`double precision`, `numeric(10,2)`, `timestamp with time zone`. Column names that are not plain
words are in double quotes or backticks. A type may be followed by `not null`, `default` and a
literal, `comment` and a text, and `generated always as` with an expression in parentheses.
"""

from __future__ import annotations

import difflib
import re
from typing import Final, NoReturn

import pyarrow as pa

from lakeward.errors import InvalidInput
from lakeward.model.types import PRIMITIVES

_TOKEN: Final = re.compile(
    r"""\s*(?:"(?P<quoted>(?:[^"]|"")+)"|`(?P<ticked>[^`]+)`|(?P<word>\w+)|(?P<mark>[(),<>:]))""",
    re.UNICODE,
)
_LITERAL: Final = re.compile(
    r"""\s*(?P<text>(?:[A-Za-z_]\w*\s*)?'(?:[^'\\]|\\.|'')*'|[^\s,()]+)""", re.UNICODE
)
"""A literal: a text, perhaps after the name of its type, a number or a word."""
DEFAULT: Final = b"lakeward.default"
GENERATED: Final = b"lakeward.generated"
COMMENT: Final = b"comment"
"""The metadata of an Arrow field with its default, the expression of its values, its comment."""
_NESTED: Final = ("decimal", "list", "map", "struct")
_SQL_NAMES: Final = {
    **dict.fromkeys(("int", "integer"), "int32"),
    **dict.fromkeys(("bigint", "long"), "int64"),
    **dict.fromkeys(("smallint", "short"), "int16"),
    **dict.fromkeys(("tinyint", "byte"), "int8"),
    **dict.fromkeys(("bool",), "boolean"),
    **dict.fromkeys(("real", "float32"), "float"),
    **dict.fromkeys(("float64",), "double"),
    **dict.fromkeys(("text", "varchar", "char", "character", "str", "utf8"), "string"),
    **dict.fromkeys(("bytes", "blob", "bytea", "varbinary"), "binary"),
    **dict.fromkeys(("date32",), "date"),
    **dict.fromkeys(("timestamptz", "timestamp_ltz"), "timestamp"),
    **dict.fromkeys(("datetime",), "timestamp_ntz"),
    **dict.fromkeys(("numeric", "dec"), "decimal"),
    **dict.fromkeys(("array",), "list"),
}
"""Other names for types; `int8` has 8 bits, as in Arrow, and not 8 bytes."""
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
            position = self._clause(whole, found.end())
        self._next = 0

    def column(self) -> pa.Field:
        """Parse a name, a type, and optionally `not null`, `default` and `generated always as`."""
        name = self._name()
        kind = self.type()
        nullable, metadata = True, dict[bytes, str]()
        while True:
            if self._word("not"):
                if not self._word("null"):
                    self._refuse("after `not` comes `null`")
                nullable = False
            elif self._word("default"):
                metadata[DEFAULT] = self._pop("a literal")[1]
            elif self._word("comment"):
                metadata[COMMENT] = self._comment()
            elif self._word("generated"):
                self._word("always")
                if not self._word("as") or self._peek()[0] != "text":
                    self._refuse("after `generated always` comes `as (…)`")
                metadata[GENERATED] = self._pop("an expression")[1]
            else:
                return pa.field(name, kind, nullable, metadata or None)

    def take(self, mark: str) -> bool:
        """Whether the next token is this mark; it is then read."""
        if self._peek() != ("mark", mark):
            return False
        self._next += 1
        return True

    def end(self) -> None:
        """Nothing may follow."""
        if self._next < len(self._tokens):
            self._refuse(f"{self._tokens[self._next][1]!r} has no place there")

    def type(self, depth: int = 0) -> pa.DataType:
        """A type, with its parts."""
        if depth > _DEEPEST:
            self._refuse("types are nested too deeply")
        kind, given = self._pop("a type")
        word = _SQL_NAMES.get(given.lower(), given.lower())
        if kind != "word" or word not in (*PRIMITIVES, *_NESTED):
            self._refuse(f"{given!r} is not a type{_nearest(given)}")
        match word:
            case "decimal":
                return self._decimal(given)
            case "double":
                self._word("precision")
                return PRIMITIVES[word]
            case "string" | "binary" if given.lower() not in PRIMITIVES:
                self._word("varying")
                self._length()
                return PRIMITIVES[word]
            case "timestamp" if given.lower() == "timestamp":
                return self._timestamp()
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

    def _clause(self, whole: str, position: int) -> int:
        """Parse the text after `default`, `comment` or `generated always as`; return its end."""
        words = [word.lower() for kind, word in self._tokens[-3:] if kind == "word"]
        kind, last = self._tokens[-1]
        is_name = len(self._tokens) == 1 or self._tokens[-2][1] in (",", "<")
        if kind == "word" and last.lower() in ("default", "comment") and not is_name:
            found = _LITERAL.match(whole, position)
            if found is None:
                self._refuse(f"a literal is missing after `{last.lower()}`")
            self._tokens.append(("text", found["text"]))
            return found.end()
        if words[-2:] not in (["always", "as"], ["generated", "as"]):
            return position
        start = whole.find("(", position)
        if start < 0 or whole[position:start].strip():
            return position
        end = _closing(whole, start)
        if end is None:
            self._refuse("`)` is missing")
        self._tokens.append(("text", whole[start + 1 : end].strip()))
        return end + 1

    def _comment(self) -> str:
        """Return a comment without its quotes."""
        text = self._pop("a text")[1]
        if not text.startswith("'"):
            self._refuse("a comment is a text in single quotes")
        return re.sub(r"\\(.)|''", lambda found: found[1] or "'", text[1:-1])

    def _decimal(self, given: str) -> pa.DataType:
        if not self.take("("):
            self._refuse(f"{given} needs its digits, as in {given}(10,2)")
        precision = self._number()
        scale = self._number() if self.take(",") else 0
        self._need(")")
        try:
            return pa.decimal128(precision, scale)
        except ValueError:
            self._refuse(f"a decimal has 1 to 38 digits, and not {precision}")

    def _length(self) -> None:
        """A length in parentheses, which is not kept."""
        if self.take("("):
            self._number()
            self._need(")")

    def _timestamp(self) -> pa.DataType:
        """The rest of `timestamp with time zone` and `timestamp without time zone`."""
        zoned = "timestamp"
        for word, name in (("with", "timestamp"), ("without", "timestamp_ntz")):
            if self._word(word):
                zoned = name
                if not (self._word("time") and self._word("zone")):
                    self._refuse(f"after `{word}` comes `time zone`")
        return PRIMITIVES[zoned]

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
        hint = "Write columns as `id int64 not null, price decimal(10,2)`."
        if "type" in reason:
            types = (*PRIMITIVES, "decimal(p,s)", "list<…>", "map<…, …>", "struct<…: …>")
            hint += f" Types: {', '.join(types)}."
        raise InvalidInput(what, hint=hint)


def _closing(text: str, start: int) -> int | None:
    """Return where the parenthesis at `start` is closed, ignoring quoted text."""
    depth, quote = 0, ""
    for end in range(start, len(text)):
        sign = text[end]
        if quote:
            quote = "" if sign == quote and text[end - 1] != "\\" else quote
        elif sign in "'\"`":
            quote = sign
        else:
            depth += (sign == "(") - (sign == ")")
            if not depth:
                return end
    return None


def _nearest(word: str) -> str:
    """A question after a known type that is spelled alike."""
    found = difflib.get_close_matches(word.lower(), (*PRIMITIVES, *_NESTED, *_SQL_NAMES), 1)
    return f" (did you mean {found[0]}?)" if found else ""
