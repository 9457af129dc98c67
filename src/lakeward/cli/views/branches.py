"""Branches: their tables, where these are, and what publishing them would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import View
from lakeward.lake.branch import Branch
from lakeward.write.branch.named import BranchDiff


@dataclass(frozen=True, slots=True)
class BranchView(View):
    """One branch with its tables: name, version that it stands on, and location."""

    name: str
    actor: str
    created: datetime
    tables: tuple[tuple[str, int, str], ...]

    @classmethod
    def of(cls, branch: Branch) -> BranchView:
        """What is shown of a branch."""
        tables = tuple((t.name, t.base_version, t.location) for t in branch.tables())
        return cls(branch.name, branch.actor, branch.created, tables)

    def to_json(self) -> dict[str, Any]:
        """The same as an object."""
        return {
            "branch": self.name,
            "actor": self.actor,
            "created": self.created,
            "tables": [
                {"table": name, "base_version": version, "location": location}
                for name, version, location in self.tables
            ],
        }

    def to_text(self) -> Iterator[RenderableType]:
        """A line to each table."""
        rows = [(name, str(version), location) for name, version, location in self.tables]
        yield Text(words.printable(f"Branch {self.name}"))
        yield words.grid(("table", "from version", "location"), rows, right=("from version",))


@dataclass(frozen=True, slots=True)
class BranchesView(View):
    """All branches."""

    branches: tuple[BranchView, ...]

    @classmethod
    def of(cls, branches: Iterable[Branch]) -> BranchesView:
        """What is shown of branches."""
        return cls(tuple(map(BranchView.of, branches)))

    def to_json(self) -> dict[str, Any]:
        """A list of them."""
        return {"branches": [branch.to_json() for branch in self.branches]}

    def to_text(self) -> Iterator[RenderableType]:
        """A line to each."""
        if not self.branches:
            yield Text("The lake has no branches.")
            return
        rows = [
            (b.name, ", ".join(t[0] for t in b.tables), b.actor, words.moment(b.created))
            for b in self.branches
        ]
        yield words.grid(("branch", "tables", "actor", "since"), rows)


@dataclass(frozen=True, slots=True)
class BranchDiffView(View):
    """What publishing a branch would do to each of its tables."""

    name: str
    tables: tuple[BranchDiff, ...]

    def to_json(self) -> dict[str, Any]:
        """The same as objects."""
        return {"branch": self.name, "tables": [asdict(table) for table in self.tables]}

    def to_text(self) -> Iterator[RenderableType]:
        """A line to each table, and what stands in the way."""
        columns = ("table", "from version", "now", "done", "files", "rows")
        rows = [
            (
                t.table,
                str(t.base_version),
                str(t.version),
                ", ".join(t.operations) or "nothing",
                f"+{t.files_added} -{t.files_removed}",
                f"{t.rows_added - t.rows_removed:+,}",
            )
            for t in self.tables
        ]
        yield words.grid(columns, rows, right=("from version", "now", "files", "rows"))
        for table in self.tables:
            if table.conflict is not None:
                yield Text(words.printable(f"Conflict: {table.conflict}"), style="red")
