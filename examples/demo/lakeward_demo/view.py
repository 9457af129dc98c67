"""The demo as it is told: scene by scene for people, all at once for programs."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import View
from lakeward_demo.story import Check, Scene

_SHOP: Final = "./shop"
_NEXT: Final = (
    ("tables", "what the lake holds"),
    ("runs", "what each run of the pipeline did, the failed one too"),
    ("history gold.daily_sales", "who did what, when and why"),
    ("diff silver.orders 1", "what changed since version 1"),
    ("read gold.daily_sales --where \"country = 'PT'\"", "a page of rows"),
    ("doctor", "is all as promised?"),
    ("serve", "all of it in a browser"),
)
_NEXT_EMBEDDED: Final = (
    ("tables", "what the lake holds"),
    ("history shop.orders", "who did what, when and why"),
    ("diff shop.stock 1", "what changed since version 1"),
    ("read shop.orders --where \"country = 'PT'\"", "a page of rows"),
    ("doctor", "is all as promised?"),
    ("serve", "all of it in a browser"),
)


class DemoView(View):
    """The scenes, played while they are shown.

    Args:
        directory: The lake's.
        kept: Whether it stays after the demo.
        embedded: It was made without Spark.
        scenes: Played one after another.
    """

    def __init__(
        self, directory: Path, scenes: Iterable[Scene], *, kept: bool, embedded: bool
    ) -> None:
        self._directory = directory
        self._scenes = iter(scenes)
        self._kept = kept
        self._embedded = embedded
        self._played: list[Scene] = []
        self._seconds = 0.0

    @property
    def lake(self) -> Path:
        """The lake's directory."""
        return self._directory

    @property
    def ok(self) -> bool:
        """Whether everything played so far was as expected."""
        return all(c.ok for s in self._played for c in s.checks)

    def to_json(self) -> dict[str, Any]:
        """Every check of every step."""
        for _ in self._play():
            pass
        return {
            "ok": self.ok,
            "lake": str(self._directory) if self._kept else None,
            "seconds": round(self._seconds, 3),
            "steps": [_scene_json(scene) for scene in self._played],
        }

    def to_text(self) -> Iterator[RenderableType]:
        """Each scene when it is over, and a summary."""
        yield Text.assemble(("Lakeward, end to end", "bold"), f"  in {self._directory}")
        for number, scene in enumerate(self._play(), start=1):
            yield from _scene_text(number, scene)
        yield from self._summary()

    def _play(self) -> Iterator[Scene]:
        started = time.monotonic()
        for scene in self._scenes:
            self._played.append(scene)
            self._seconds = time.monotonic() - started
            yield scene

    def _summary(self) -> Iterator[RenderableType]:
        checks = [c for s in self._played for c in s.checks]
        bad = sum(not c.ok for c in checks)
        steps = words.counted(len(self._played), "step")
        yield Text("")
        if bad:
            yield Text.assemble(
                (f"✗ {bad} of {words.counted(len(checks), 'check')} failed", "bold red"),
                f" in {steps} and {self._seconds:.1f} s. Lakeward did not keep a promise here: ",
                "please tell its makers.",
            )
            return
        yield Text.assemble(
            (f"✓ all {words.counted(len(checks), 'check')} hold", "bold green"),
            f" in {steps} and {self._seconds:.1f} s.",
        )
        yield Text("")
        yield Text("Where to look next:", style="bold")
        yield words.facts(self._advice())

    def _advice(self) -> Iterator[tuple[str, RenderableType]]:
        program = f"  {_program()}"
        if self._kept:
            program += f" --lake {shlex.quote(str(self._directory))}"
        else:
            again = "demo --embedded" if self._embedded else "demo"
            yield f"{program} {again} --into {_SHOP}", "play it again and keep the lake"
            program += f" --lake {_SHOP}"
        for command, what in _NEXT_EMBEDDED if self._embedded else _NEXT:
            yield f"{program} {command}", what


def _program() -> str:
    """How the reader calls the program that is running: by its name, or by its path from here."""
    if shutil.which("lakeward"):
        return "lakeward"
    path = Path(sys.argv[0])
    here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return shlex.quote(str(here)) if path.name == "lakeward" else "python -m lakeward"


def _scene_text(number: int, scene: Scene) -> Iterator[RenderableType]:
    yield Text("")
    yield Text.assemble(
        (f"{number:>2}  ", "bold"), (scene.title, "bold"), (_took(scene.seconds), "dim")
    )
    for note in scene.notes:
        yield Text(f"    {words.printable(note)}", style="dim")
    for check in scene.checks:
        yield _check_text(check)


def _check_text(check: Check) -> Text:
    if check.ok:
        return Text.assemble(("    ✓ ", "green"), f"{check.what}: ", (_short(check.actual), "bold"))
    return Text.assemble(
        ("    ✗ ", "bold red"),
        f"{check.what}: expected ",
        (_short(check.expected), "bold"),
        ", got ",
        (_short(check.actual), "bold red"),
    )


def _scene_json(scene: Scene) -> dict[str, Any]:
    return {
        "title": scene.title,
        "seconds": round(scene.seconds, 3),
        "notes": scene.notes,
        "checks": [
            {"what": c.what, "ok": c.ok, "expected": c.expected, "actual": c.actual}
            for c in scene.checks
        ],
    }


def _took(seconds: float) -> str:
    return f"  {seconds * 1000:.0f} ms" if seconds < 1 else f"  {seconds:.1f} s"


def _short(value: Any) -> str:
    if value is True:
        return "yes"
    if value is False:
        return "no"
    text = _plain(value)
    return words.printable(text if len(text) <= 120 else text[:119] + "…")


def _plain(value: Any) -> str:
    match value:
        case list() | tuple():
            return ", ".join(map(_plain, value)) or "none"
        case dict():
            return ", ".join(f"{k} ({_plain(v)})" for k, v in value.items())
        case datetime():
            return words.moment(value)
        case _:
            return str(value)
