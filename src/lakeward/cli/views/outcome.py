"""What became of a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import View
from lakeward.write.commit.outcome import Outcome


@dataclass(frozen=True, slots=True)
class OutcomeView(View):
    """What became of a transaction."""

    outcome: Outcome

    def to_json(self) -> dict[str, Any]:
        """Its state, and the versions that it made."""
        found = self.outcome
        return {
            "transaction_id": found.transaction_id,
            "state": found.state.value,
            "committed": found.committed,
            "versions": found.versions,
        }

    def to_text(self) -> Iterator[RenderableType]:
        """The same in words."""
        found = self.outcome
        state = "committed" if found.committed else found.state.value.replace("_", " ")
        yield Text(words.printable(f"Transaction {found.transaction_id} is {state}."))
        if found.versions:
            lines = ((name, str(version)) for name, version in found.versions.items())
            yield words.grid(["table", "version"], lines, right=("version",))
