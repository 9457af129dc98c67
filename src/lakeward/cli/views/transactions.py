"""Transactions, and one cut over all tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import View
from lakeward.lake.snapshot import LakeSnapshot
from lakeward.read.history import TransactionRecord


@dataclass(frozen=True, slots=True)
class TransactionsView(View):
    """Transactions, newest first.

    Attributes:
        more: Older ones were left out.
    """

    transactions: tuple[TransactionRecord, ...]
    more: bool = False

    def to_json(self) -> dict[str, Any]:
        """`{"transactions": […], "more": …}`."""
        return {"transactions": [_facts(t) for t in self.transactions], "more": self.more}

    def to_text(self) -> Iterator[RenderableType]:
        """One line to a transaction."""
        if not self.transactions:
            yield Text("There is no such transaction.")
            return
        # Only an open one needs its lease.
        leased = ["lease until"] if any(t.ended is None for t in self.transactions) else []
        yield words.grid(
            ["transaction", "state", "isolation", "opened", *leased, "actor", "tables", "message"],
            (
                (
                    t.transaction_id,
                    _state(t),
                    t.isolation,
                    words.moment(t.opened),
                    *(words.moment(None if t.ended else t.lease_until) for _ in leased),
                    t.actor,
                    ", ".join(t.versions),
                    t.message or "",
                )
                for t in self.transactions
            ),
        )
        if self.more:
            yield Text("Older transactions follow; --limit shows more.", style="dim")


@dataclass(frozen=True, slots=True)
class TransactionView(View):
    """One transaction."""

    transaction: TransactionRecord

    def to_json(self) -> dict[str, Any]:
        """All that is known of it."""
        return _facts(self.transaction)

    def to_text(self) -> Iterator[RenderableType]:
        """What became of it, and its members."""
        found = self.transaction
        yield words.heading(f"Transaction {found.transaction_id}")
        pairs: list[tuple[str, RenderableType]] = [
            ("state", _state(found)),
            ("isolation", found.isolation),
            ("actor", found.actor),
            ("process", found.process or "–"),
            ("opened", words.moment(found.opened)),
        ]
        if found.ended is None:
            pairs.append(("lease until", words.moment(found.lease_until)))
        else:
            pairs.append(("ended", words.moment(found.ended)))
        if found.message:
            pairs.append(("message", found.message))
        yield words.facts(pairs)
        if found.versions:
            lines = ((name, str(version)) for name, version in found.versions.items())
            yield words.grid(["table", "version"], lines, right=("version",))


@dataclass(frozen=True, slots=True)
class SnapshotView(View):
    """One cut: each table with its version and when that was committed.

    Attributes:
        moment: The time of the cut; None for now.
    """

    moment: datetime | None
    tables: tuple[tuple[str, int, datetime], ...]

    @classmethod
    def of(cls, snapshot: LakeSnapshot) -> SnapshotView:
        """The cut of a snapshot."""
        return cls(snapshot.moment, tuple((t.name, t.version, t.timestamp) for t in snapshot))

    def to_json(self) -> dict[str, Any]:
        """`{"moment": …, "tables": […]}`."""
        return {
            "moment": self.moment,
            "tables": [
                {"table": name, "version": version, "timestamp": when}
                for name, version, when in self.tables
            ],
        }

    def to_text(self) -> Iterator[RenderableType]:
        """One line to a table."""
        if not self.tables:
            yield Text("There is no table in the cut.")
            return
        yield words.grid(
            ["table", "version", "committed"],
            ((name, str(version), words.moment(when)) for name, version, when in self.tables),
            right=("version",),
        )


def _facts(source: TransactionRecord) -> dict[str, Any]:
    return {
        "transaction_id": source.transaction_id,
        "state": source.state.value,
        "committed": source.committed,
        "actor": source.actor,
        "isolation": source.isolation,
        "message": source.message,
        "process": source.process,
        "opened": source.opened,
        "lease_until": source.lease_until,
        "ended": source.ended,
        "versions": dict(source.versions),
    }


def _state(source: TransactionRecord) -> str:
    return "committed" if source.committed else source.state.value.replace("_", " ")
