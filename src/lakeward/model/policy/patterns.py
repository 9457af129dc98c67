"""Patterns of table names: `sales.orders`, `gold.*`, `gold.fact_*`, `*.orders`, `*`.

`*` alone matches every table. Otherwise a pattern has the parts of a name, and `*` in a part
matches any characters. If several patterns match a table, the more specific one has priority: an
exact namespace before a pattern of one, then an exact name before a pattern, then more letters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lakeward.errors import InvalidName
from lakeward.model.names import TableName

_PART: Final = re.compile(r"[\w*-]{1,128}", re.UNICODE)
EVERY: Final = "*"


@dataclass(frozen=True)
class Pattern:
    """A pattern of table names, or an exact name."""

    text: str

    @classmethod
    def parse(cls, text: object) -> Pattern:
        """Parse a pattern; raise `InvalidName` if it is invalid."""
        if isinstance(text, Pattern):
            return text
        given = str(text) if isinstance(text, TableName) else text
        parts = given.split(".") if isinstance(given, str) else []
        if not 1 <= len(parts) <= 2 or not all(_PART.fullmatch(part) for part in parts):
            what = f"{text!r} is not a pattern of table names."
            hint = "Write a name such as sales.orders, gold.* for a namespace, or * for all tables."
            raise InvalidName(what, hint=hint, name=str(text))
        found = cls(".".join(parts))
        if found.is_exact:
            TableName.parse(found.text)
        return found

    @property
    def is_exact(self) -> bool:
        """Whether the pattern is the exact name of one table."""
        return "*" not in self.text

    def matches(self, name: TableName) -> bool:
        """Return whether the pattern matches a table's name."""
        if self.text == EVERY:
            return True
        namespace, of_name = self._parts
        return bool(namespace.fullmatch(name.namespace) and of_name.fullmatch(name.name))

    def covers(self, namespace: str) -> bool:
        """Return whether the pattern matches every table name of a namespace."""
        if self.text == EVERY:
            return True
        of_name = self.text.rpartition(".")[2]
        return not of_name.strip("*") and bool(self._parts[0].fullmatch(namespace))

    @property
    def specificity(self) -> tuple[bool, bool, int, str]:
        """Sort key of patterns that match one table; the greatest has priority."""
        namespace, _, name = self.text.rpartition(".")
        letters = len(self.text.replace("*", ""))
        return ("*" not in namespace and self.text != EVERY, "*" not in name, letters, self.text)

    @cached_property
    def _parts(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        namespace, _, name = self.text.rpartition(".")
        return _expression(namespace), _expression(name)

    def __str__(self) -> str:
        return self.text


def _expression(part: str) -> re.Pattern[str]:
    # A star alone matches at least one character, so *.orders requires a namespace.
    any_text = ".+" if part == "*" else ".*"
    return re.compile(any_text.join(re.escape(p) for p in part.split("*")), re.DOTALL)
