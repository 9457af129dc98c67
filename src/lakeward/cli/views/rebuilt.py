"""What a rebuilt store holds, and what it could not be given back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import View
from lakeward.maintain.rebuild import Rebuilt


@dataclass(frozen=True, slots=True)
class RebuiltView(View):
    """The outcome of `rebuild`."""

    lake: str
    rebuilt: Rebuilt

    def to_json(self) -> dict[str, Any]:
        """Tables, what was left out, and transactions that lost a table."""
        found = self.rebuilt
        return {
            "lake": self.lake,
            "tables": found.tables,
            "skipped": found.skipped,
            "incomplete": [
                {"transaction_id": i, "tables": there, "expected": meant}
                for i, there, meant in found.incomplete
            ],
        }

    def to_text(self) -> Iterator[RenderableType]:
        """The tables, then what is missing."""
        found = self.rebuilt
        count = words.counted(len(found.tables), "table")
        yield Text(words.printable(f"The store {self.lake} is rebuilt with {count}."))
        if found.tables:
            lines = ((name, str(version)) for name, version in found.tables.items())
            yield words.grid(["table", "version"], lines, right=("version",))
        for location, reason in found.skipped.items():
            yield Text(words.printable(f"left out: {location}, because {reason}"), style="yellow")
        for transaction_id, there, meant in found.incomplete:
            text = f"torn: transaction {transaction_id} has {there} of its {meant} tables"
            yield Text(words.printable(text), style="red")
