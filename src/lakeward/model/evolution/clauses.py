"""Changes of a definition from SQL: the clauses of ALTER TABLE as Spark and Iceberg write them.

`ADD COLUMN currency string DEFAULT 'EUR' AFTER amount`, `RENAME COLUMN a TO b`, `DROP COLUMN a`,
`ALTER COLUMN a TYPE bigint`, `SET TBLPROPERTIES ('k' = 'v')`, `ADD CONSTRAINT n CHECK (a > 0)`,
`ADD PARTITION FIELD day(ts)` and their like. Nothing of a text is left out silently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

from lakeward.errors import InvalidInput
from lakeward.model.evolution.alterations import (
    AddColumn,
    AddConstraint,
    AddPartitionField,
    Alteration,
    ChangeType,
    DropColumn,
    DropConstraint,
    DropPartitionField,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetDefault,
    SetNullable,
    SetProperty,
    UnsetProperty,
)
from lakeward.model.expressions.where import with_quotes
from lakeward.model.schema import named_type

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_BEFORE: Final = "x "


def parse_clause(text: str) -> list[Alteration]:
    """The changes of one clause of ALTER TABLE; raise `InvalidInput` for anything else."""
    import sqlglot

    try:
        # Behind a word, because the tokenizer takes some first words for whole commands.
        whole = f"{_BEFORE}{text}"
        tokens = with_quotes(sqlglot.Dialect.get_or_raise("databricks").tokenize(whole), whole)
    except Exception as error:  # whatever a hostile text does to the tokenizer
        what = f"{text!r} is not valid SQL: a quote or a comment is left open."
        raise InvalidInput(what) from error
    reader = _Reader(whole, tokens[1:])
    found = reader.clause()
    reader.end()
    return found


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0

    def clause(self) -> list[Alteration]:
        """One clause, which may make several changes."""
        if self._words("ADD", "CONSTRAINT"):
            return [self._check()]
        if self._words("DROP", "CONSTRAINT"):
            return [DropConstraint(self._name())]
        if self._words("ADD", "PARTITION", "FIELD"):
            return [AddPartitionField(self._rest())]
        if self._words("DROP", "PARTITION", "FIELD"):
            return [DropPartitionField(self._rest())]
        if self._words("ADD", "COLUMNS") or self._words("ADD", "COLUMN") or self._words("ADD"):
            return self._listed(self._column)
        if self._words("DROP", "COLUMNS") or self._words("DROP", "COLUMN"):
            return self._listed(lambda: DropColumn(self._path()))
        if self._words("RENAME", "COLUMN"):
            old = self._path()
            self._need("TO")
            return [RenameColumn(old, self._name())]
        if self._words("SET", "TBLPROPERTIES"):
            return self._listed(self._property)
        if self._words("UNSET", "TBLPROPERTIES"):
            return self._listed(lambda: UnsetProperty(self._string()))
        if self._words("ALTER", "COLUMN") or self._words("CHANGE", "COLUMN"):
            return [self._altered()]
        return self._refuse("it is none of ADD, DROP, RENAME, ALTER, SET and UNSET")

    def end(self) -> None:
        """Nothing may follow."""
        if self._next < len(self._tokens):
            self._refuse(f"{self._tokens[self._next].text!r} is one too many")

    def _listed(self, one: Callable[[], Alteration]) -> list[Alteration]:
        """One thing, or several in brackets or with commas between them."""
        bracket = self._mark("(")
        found = [one()]
        while self._mark(","):
            found.append(one())
        if bracket and not self._mark(")"):
            self._refuse("a bracket is not closed")
        return found

    def _column(self) -> Alteration:
        path = self._path()
        kind = self._type()
        default = comment = after = None
        nullable, first = True, False
        while True:
            if self._words("NOT", "NULL"):
                nullable = False
            elif self._words("DEFAULT"):
                default = self._literal()
            elif self._words("COMMENT"):
                comment = self._string()
            elif self._words("FIRST"):
                first = True
            elif self._words("AFTER"):
                after = self._path()
            else:
                break
        return AddColumn(path, named_type(kind), default, nullable, comment, after, first)

    def _altered(self) -> Alteration:
        path = self._path()
        if self._words("TYPE"):
            return ChangeType(path, named_type(self._type()))
        if self._words("SET", "NOT", "NULL"):
            return SetNullable(path, nullable=False)
        if self._words("DROP", "NOT", "NULL"):
            return SetNullable(path, nullable=True)
        if self._words("SET", "DEFAULT"):
            return SetDefault(path, self._literal())
        if self._words("DROP", "DEFAULT"):
            return SetDefault(path, None)
        if self._words("COMMENT"):
            return SetComment(path, self._string())
        if self._words("FIRST"):
            return MoveColumn(path, first=True)
        if self._words("AFTER"):
            return MoveColumn(path, after=self._path())
        return self._refuse(f"what becomes of column {path} cannot be understood")

    def _check(self) -> Alteration:
        name = self._name()
        self._need("CHECK")
        if not self._mark("("):
            self._refuse("a check stands in brackets")
        start = self._pop("a condition").start
        self._next = len(self._tokens) - 1
        last = self._pop("a bracket")
        if last.text != ")":
            self._refuse("a bracket is not closed")
        return AddConstraint(name, self._text[start : last.start].strip())

    def _property(self) -> Alteration:
        key = self._string()
        if not self._mark("="):
            self._refuse("a property is written as 'key' = 'value'")
        return SetProperty(key, self._string())

    def _path(self) -> str:
        """A column's name, or several with dots between them, as `evolution.paths` reads it."""
        names = [self._name()]
        while self._mark("."):
            names.append(self._name())
        plain = [n if "." not in n and "`" not in n else f"`{n.replace('`', '``')}`" for n in names]
        return ".".join(plain)

    def _name(self) -> str:
        token = self._pop("a name")
        if not token.text or token.token_type.name in ("STRING", "L_PAREN", "R_PAREN", "COMMA"):
            self._refuse(f"{token.text!r} is not a name")
        return token.text

    def _type(self) -> str:
        """The text of a type, with its parts."""
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
                self._refuse("a type is not complete")
            end = token.end
            self._next += 1
        return self._text[first.start : end + 1]

    def _literal(self) -> str:
        """The text of a value, up to the next word of the clause."""
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

    def _string(self) -> str:
        token = self._pop("a text in quotes")
        if token.token_type.name != "STRING":
            self._refuse(f"{token.text!r} must stand in single quotes")
        return token.text

    def _rest(self) -> str:
        start = self._pop("a term").start
        self._next = len(self._tokens)
        return self._text[start:].strip()

    def _words(self, *words: str) -> bool:
        """Whether these words come next; they are then read."""
        here = self._tokens[self._next : self._next + len(words)]
        if [t.text.upper() for t in here] != list(words):
            return False
        self._next += len(words)
        return True

    def _need(self, word: str) -> None:
        if not self._words(word):
            self._refuse(f"{word} is missing")

    def _mark(self, mark: str) -> bool:
        return self._words(mark)

    def _peek(self) -> Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _pop(self, expected: str) -> Token:
        token = self._peek()
        if token is None:
            self._refuse(f"{expected} is missing")
        self._next += 1
        return token

    def _refuse(self, reason: str) -> NoReturn:
        what = f"`{self._text.removeprefix(_BEFORE)}` cannot be understood: {reason}."
        hint = (
            "Write ADD COLUMN a int64, RENAME COLUMN a TO b, DROP COLUMN a, ALTER COLUMN a TYPE …,"
            " SET TBLPROPERTIES ('k' = 'v'), ADD CONSTRAINT n CHECK (…) or their like."
        )
        raise InvalidInput(what, hint=hint)
