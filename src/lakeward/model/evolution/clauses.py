"""Parses the clauses of ALTER TABLE, as Spark and Iceberg write them, to changes of a definition.

`ADD COLUMN currency string DEFAULT 'EUR' AFTER amount`, `RENAME COLUMN a TO b`, `DROP COLUMN a`,
`ALTER COLUMN a TYPE bigint`, `SET TBLPROPERTIES ('k' = 'v')`, `ADD CONSTRAINT n CHECK (a > 0)`,
`ADD PARTITION FIELD day(ts)` and so on. No part of a text is ignored silently.
"""

from __future__ import annotations

import re
from typing import Final

from lakeward.errors import UnsupportedFeature
from lakeward.model.constraints import Check, ForeignKey, NotNull, OnViolation, Unique
from lakeward.model.evolution.alterations import (
    AddColumn,
    AddConstraint,
    AddPartitionField,
    AddRule,
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
from lakeward.model.schema import named_type
from lakeward.model.words import Words

_HINT: Final = (
    "Write ADD COLUMN a int64, RENAME COLUMN a TO b, DROP COLUMN a, ALTER COLUMN a TYPE …,"
    " SET TBLPROPERTIES ('k' = 'v'), ADD CONSTRAINT n CHECK (…) or their like."
)
_REFUSED: Final = {
    ("RENAME", "TO"): "Use lake.rename(name, new) or `lakeward rename`, outside a transaction.",
    ("CLUSTER", "BY"): "Tables are not clustered by a declaration; OPTIMIZE … ZORDER BY clusters.",
    ("WRITE",): "The order of rows in files is chosen where they are written: sort the rows.",
    ("SET", "IDENTIFIER"): "Declare a key: ADD CONSTRAINT name UNIQUE (column).",
    ("DROP", "IDENTIFIER"): "Drop the key: DROP CONSTRAINT name.",
    ("SET", "LOCATION"): "The lake chooses where tables lie.",
    ("CREATE", "BRANCH"): "Use lake.branch.",
    ("CREATE", "OR", "REPLACE", "BRANCH"): "Use lake.branch.",
    ("CREATE", "TAG"): "Use lake.tag.",
    ("REPLACE", "COLUMNS"): "Write the rows with schema_mode='overwrite', or drop and add columns.",
    ("DROP", "FEATURE"): "Features stay: older versions of the table need them.",
    ("SET", "SERDE"): "Tables of the lake have none.",
    ("SET", "SERDEPROPERTIES"): "Tables of the lake have none.",
    ("RECOVER", "PARTITIONS"): "The lake's log says which files a table has.",
}
"""Clauses of other engines that are recognized but not supported, and the hint for each."""


def parse_clause(text: str) -> list[Alteration]:
    """Return the changes of one clause of ALTER TABLE; raise `InvalidInput` for anything else."""
    return [change for change, _ in parse_with_ifs(text)]


def parse_with_ifs(text: str) -> list[tuple[Alteration, bool]]:
    """Return the changes of one clause, each with whether it has IF EXISTS or IF NOT EXISTS."""
    words = Words(text, _HINT)
    found = clause(words)
    words.end()
    return found


def clause(words: Words) -> list[tuple[Alteration, bool]]:
    """Parse the next clause; return its changes, each with whether to skip it if not needed.

    Raises `UnsupportedFeature` for a clause that does not change the definition, and `InvalidInput`
    for one that cannot be parsed.
    """
    return _Clause(words).read()


class _Clause:
    """Parses one clause, which may make several changes."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._lenient = False

    def read(self) -> list[tuple[Alteration, bool]]:
        for refused, instead in _REFUSED.items():
            if self._words.words(*refused):
                what = f"ALTER TABLE … {' '.join(refused)} is not supported."
                raise UnsupportedFeature(what, hint=instead)
        return [(change, self._lenient) for change in self._read()]

    def _read(self) -> list[Alteration]:
        words = self._words
        if words.words("ADD", "CONSTRAINT"):
            return [self._constraint()]
        if words.words("DROP", "CONSTRAINT"):
            self._if("IF", "EXISTS")
            return [DropConstraint(words.name())]
        if words.words("ADD", "PARTITION", "FIELD"):
            return [AddPartitionField(self._term(words.rest()))]
        if words.words("DROP", "PARTITION", "FIELD"):
            return [DropPartitionField(self._term(words.rest()))]
        if words.words("REPLACE", "PARTITION", "FIELD"):
            return self._replaced_partition()
        if words.words("ADD", "COLUMNS") or words.words("ADD", "COLUMN") or words.words("ADD"):
            self._if("IF", "NOT", "EXISTS")
            return list(words.listed(self._column))
        if words.words("DROP", "COLUMNS") or words.words("DROP", "COLUMN"):
            self._if("IF", "EXISTS")
            return list(words.listed(lambda: DropColumn(words.path())))
        if words.words("RENAME", "COLUMN"):
            old = words.path()
            words.need("TO")
            return [RenameColumn(old, words.name())]
        if words.words("SET", "TBLPROPERTIES"):
            return list(words.listed(self._property))
        if words.words("UNSET", "TBLPROPERTIES"):
            self._if("IF", "EXISTS")
            return list(words.listed(lambda: UnsetProperty(self._key())))
        if words.words("ALTER", "COLUMN") or words.words("ALTER"):
            return [change for changes in words.listed(self._altered) for change in changes]
        if words.words("CHANGE", "COLUMN") or words.words("CHANGE"):
            return self._changed()
        return words.refuse("it is none of ADD, DROP, RENAME, ALTER, SET and UNSET")

    def _if(self, *words: str) -> None:
        self._lenient = self._words.words(*words)

    def _column(self) -> Alteration:
        words = self._words
        path = words.path()
        kind = self._words.type()
        default = comment = after = None
        nullable, first = True, False
        while True:
            if words.words("NOT", "NULL"):
                nullable = False
            elif words.words("DEFAULT"):
                default = self._words.literal()
            elif words.words("COMMENT"):
                comment = words.string()
            elif words.words("FIRST"):
                first = True
            elif words.words("AFTER"):
                after = words.path()
            else:
                break
        return AddColumn(path, named_type(kind), default, nullable, comment, after, first)

    def _altered(self) -> list[Alteration]:
        """Parse ALTER COLUMN, which may make several changes of one column."""
        path = self._words.path()
        found: list[Alteration] = []
        while (change := self._next_of(path)) is not None:
            found.append(change)
        if not found:
            self._words.refuse(f"what becomes of column {path} cannot be understood")
        return found

    def _next_of(self, path: str) -> Alteration | None:
        words = self._words
        if words.words("TYPE"):
            return ChangeType(path, named_type(self._words.type()))
        if words.words("SET", "NOT", "NULL"):
            return SetNullable(path, nullable=False)
        if words.words("DROP", "NOT", "NULL"):
            return SetNullable(path, nullable=True)
        if words.words("SET", "DEFAULT"):
            return SetDefault(path, self._words.literal())
        if words.words("DROP", "DEFAULT"):
            return SetDefault(path, None)
        if words.words("COMMENT"):
            return SetComment(path, words.string())
        if words.words("FIRST"):
            return MoveColumn(path, first=True)
        if words.words("AFTER"):
            return MoveColumn(path, after=words.path())
        return None

    def _changed(self) -> list[Alteration]:
        """Parse Hive's CHANGE COLUMN: the old name, the new name, the type, and further changes.

        Without a second name it is the same as ALTER COLUMN.
        """
        words = self._words
        path = words.path()
        change = self._next_of(path)
        if change is not None:
            return [change]
        name = words.name()
        around, _, old = path.rpartition(".")
        found: list[Alteration] = [ChangeType(path, named_type(self._words.type()))]
        while (more := self._next_of(path)) is not None:
            found.append(more)
        return (
            found
            if name == old or (not around and name == path)
            else [
                *found,
                RenameColumn(path, name),
            ]
        )

    def _constraint(self) -> Alteration:
        words = self._words
        name = words.name()
        if words.words("CHECK"):
            text = words.bracketed("a check")
            words.words("ENFORCED")
            reaction = self._reaction()
            if reaction == OnViolation.FAIL:
                return AddConstraint(name, text)
            return AddRule(name, Check(text, reaction))
        if words.words("UNIQUE") or words.words("PRIMARY", "KEY"):
            columns = words.listed(words.name)
            return AddRule(name, Unique(*columns, on_violation=self._reaction()))
        if words.words("NOT", "NULL"):
            columns = words.listed(words.name)
            return AddRule(name, NotNull(*columns, on_violation=self._reaction()))
        if words.words("FOREIGN", "KEY"):
            columns = words.listed(words.name)
            words.need("REFERENCES")
            table = ".".join(words.names())
            key = words.listed(words.name) if words.next_is("(") else ()
            reaction = self._reaction()
            rule = ForeignKey(*columns, references=table, key=key, on_violation=reaction)
            return AddRule(name, rule)
        return words.refuse("a constraint is a CHECK, a UNIQUE, a FOREIGN KEY or a NOT NULL")

    def _reaction(self) -> OnViolation:
        """Parse what happens to rows that violate a constraint; without the clause, they fail."""
        words = self._words
        if not words.words("ON", "VIOLATION"):
            return OnViolation.FAIL
        for reaction in OnViolation:
            if words.words(reaction.value.upper()):
                return reaction
        return words.refuse("ON VIOLATION is followed by FAIL, QUARANTINE or WARN")

    def _replaced_partition(self) -> list[Alteration]:
        text = self._words.rest()
        found = re.split(r"\s+WITH\s+", text, flags=re.IGNORECASE)
        if len(found) != 2:
            self._words.refuse("WITH is missing")
        before, after = map(self._term, found)
        return [DropPartitionField(before), AddPartitionField(after)]

    def _term(self, text: str) -> str:
        if " as " in text.lower():
            what = "A partition field has the name that its term gives it."
            raise UnsupportedFeature(what, hint="Leave AS and the name out.")
        # Iceberg's SQL says days(ts) and day(ts).
        return re.sub(r"^(year|month|day|hour)s(?=\s*\()", r"\1", text, flags=re.IGNORECASE)

    def _property(self) -> Alteration:
        key = self._key()
        self._words.words("=")
        return SetProperty(key, self._value())

    def _key(self) -> str:
        return self._words.string() if self._words.string_next() else ".".join(self._words.names())

    def _value(self) -> str:
        return self._words.string() if self._words.string_next() else self._words.literal()
