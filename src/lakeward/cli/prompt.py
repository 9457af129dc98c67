"""The prompt of `lakeward sql`: statements that end in a semicolon, with history and completion."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from lakeward.cli.context import Cli
    from lakeward.lake.lake import Lake

_WORDS: Final = """
    AND SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET JOIN LEFT RIGHT FULL INNER CROSS ON
    USING AS WITH UNION ALL DISTINCT OR NOT IN IS NULL BETWEEN LIKE CASE WHEN THEN ELSE END CAST
    VERSION TIMESTAMP OF INSERT INTO VALUES UPDATE SET DELETE MERGE MATCHED ALTER TABLE ADD COLUMN
    CREATE DROP TRUNCATE SHOW TABLES DESCRIBE count sum avg min max
"""
_KEPT: Final = 1000
_HELP: Final = (
    "End a statement with ;. \\d lists tables, \\d TABLE shows one, \\q or Ctrl-D ends. What"
    " changes tables is committed at once."
)


class Prompt:
    """Reads statements from a terminal and runs them until the input ends."""

    def __init__(self, cli: Cli, lake: Lake, run: Callable[[str], None]) -> None:
        self._cli = cli
        self._lake = lake
        self._run = run
        self._found: list[str] = []

    def loop(self) -> None:
        """Run statements one after another; print the error of one that fails and continue."""
        from lakeward.errors import LakewardError

        history = self._prepare()
        typer.echo(_HELP, err=True)
        while True:
            try:
                text = self._statement()
            except KeyboardInterrupt:
                typer.echo("", err=True)
                continue
            except EOFError:
                typer.echo("", err=True)
                break
            if text.strip().lower() in ("\\q", "quit", "exit"):
                break
            try:
                self._run(self._spelled(text))
            except LakewardError as error:
                typer.echo(f"Error: {error}", err=True)
            except KeyboardInterrupt:
                typer.echo("Interrupted.", err=True)
        self._keep(history)

    def _statement(self) -> str:
        """Read the next statement, which may span several lines."""
        lines: list[str] = []
        while True:
            line = input("sql> " if not lines else "...> ")
            stripped = line.strip()
            if not lines and not stripped:
                continue
            if not lines and (stripped.startswith("\\") or stripped.lower() in ("quit", "exit")):
                return stripped.rstrip(";")
            lines.append(line)
            if stripped.endswith(";"):
                return "\n".join(lines).strip().rstrip(";")

    @staticmethod
    def _spelled(text: str) -> str:
        """Return the statement for a backslash command of the prompt; other text is unchanged."""
        word, _, rest = text.partition(" ")
        if word != "\\d":
            return text
        return f"DESCRIBE {rest.strip()}" if rest.strip() else "SHOW TABLES"

    def complete(self, text: str, state: int) -> str | None:
        """Return the `state`-th completion of a word: a keyword, table or column."""
        if state == 0:
            low = text.lower()
            words = [*_WORDS.split(), *self._names()]
            self._found = sorted({w for w in words if w.lower().startswith(low)}, key=str.lower)
            if text.islower():
                self._found = [w.lower() if w.isupper() else w for w in self._found]
        return self._found[state] if state < len(self._found) else None

    def _names(self) -> list[str]:
        from lakeward.errors import LakewardError

        names: list[str] = []
        with suppress(LakewardError):
            for table in self._lake.snapshot():
                names += [table.name, *table.schema.names]
        return names

    def _prepare(self) -> Any:
        try:
            import readline
        except ImportError:  # Windows
            return None
        readline.set_completer(self.complete)
        readline.set_completer_delims(" \t\n,()=<>;'\"")
        readline.parse_and_bind("tab: complete")
        readline.set_history_length(_KEPT)
        with suppress(OSError):
            readline.read_history_file(_history())
        return readline

    @staticmethod
    def _keep(readline: Any) -> None:
        if readline is None:
            return
        path = _history()
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            readline.write_history_file(path)
            path.chmod(0o600)


def _history() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "lakeward" / "sql_history"
