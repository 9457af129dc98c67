"""Prints changes as they arrive, one per line: in colour for people, as JSON for programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import orjson

from lakeward.cli.output import words
from lakeward.model.records import to_json

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from lakeward.lake.records import LakeChange

_SIGNS: Final = {
    "insert": ("+", "green"),
    "delete": ("-", "red"),
    "update_preimage": ("<", words.WARNING),
    "update_postimage": (">", words.WARNING),
}
_ADDED: Final = ("_change_type", "_commit_version", "_commit_timestamp", "_transaction_id")


class Lines:
    """Writes lines, at most `limit`."""

    def __init__(self, *, as_json: bool, limit: int | None) -> None:
        self._as_json = as_json
        self._left = limit
        self._console: Console | None = None

    def rows(self, batch: pa.RecordBatch) -> bool:
        """Write changed rows; return False when the limit is reached."""
        if self._left is not None:
            batch = batch.slice(0, self._left)
            self._left -= batch.num_rows
        for row in batch.to_pylist():
            if self._as_json:
                self._write(to_json(row))
            else:
                sign, style = _SIGNS[row["_change_type"]]
                values = (f"{n}={row[n]}" for n in row if n not in _ADDED)
                self._say(f"{sign} {row['_commit_version']} {' '.join(values)}", style)
        sys.stdout.flush()
        return self._left is None or self._left > 0

    def transaction(self, change: LakeChange) -> bool:
        """Write a transaction; return False when the limit is reached."""
        if self._left == 0:
            return False
        if self._as_json:
            self._write(to_json(change))
        else:
            tables = ", ".join(
                f"{t.table} {t.version} ({t.operation})" for t in change.tables.values()
            )
            message = f": {change.message}" if change.message else ""
            moment = words.moment(change.timestamp)
            self._say(f"{change.position} {moment} {change.actor} {tables}{message}", "")
        sys.stdout.flush()
        if self._left is not None:
            self._left -= 1
        return self._left is None or self._left > 0

    def _write(self, record: Any) -> None:
        sys.stdout.write(orjson.dumps(record).decode() + "\n")

    def _say(self, text: str, style: str) -> None:
        if self._console is None:
            from lakeward.cli.output.text_form import PipedConsole

            self._console = PipedConsole(highlight=False, soft_wrap=True)
        self._console.print(words.line(text, style))
