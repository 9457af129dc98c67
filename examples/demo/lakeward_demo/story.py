"""A story in steps, each of which does something real and checks what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakeward.lake.lake import Lake


@dataclass(frozen=True, slots=True)
class Check:
    """What was expected, and what came."""

    what: str
    expected: Any
    actual: Any

    @property
    def ok(self) -> bool:
        """Whether they are the same."""
        return bool(self.expected == self.actual)


@dataclass
class Scene:
    """A step that was played."""

    title: str
    notes: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    seconds: float = 0.0
    broke_off: bool = False


class Stage:
    """What the steps of the story share: the lake, and what they remember for later ones."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.scene = Scene("")
        self.remembered: dict[str, Any] = {}
        self._lake: Lake | None = None

    @property
    def lake(self) -> Lake:
        """The lake, opened when it is not."""
        if self._lake is None:
            self._lake = Lake(self.directory)
        return self._lake

    def close(self) -> None:
        """Close the lake, as when a program ends."""
        if self._lake is not None:
            self._lake.close()
            self._lake = None

    def say(self, text: str) -> None:
        """Tell the audience something."""
        self.scene.notes.append(text)

    def check(self, what: str, expected: Any, actual: Any) -> None:
        """Compare; the story goes on either way and ends well only if all is as expected."""
        self.scene.checks.append(Check(what, expected, actual))


Step = Callable[[Any], None]
"""Takes the stage that the story is played on."""


def play(stage: Stage, steps: Sequence[Step]) -> Iterator[Scene]:
    """Play the steps in order, giving each scene when it is over.

    A step that breaks off ends the story, because later ones build on it.
    """
    try:
        for step in steps:
            scene = stage.scene = Scene(_title(step))
            started = time.monotonic()
            try:
                step(stage)
            except Exception as error:  # noqa: BLE001  the audience is told, whatever it is
                text = f"{type(error).__name__}: {error}"
                stage.check("the step is played to its end", "no error", text)
                scene.broke_off = True
            scene.seconds = time.monotonic() - started
            yield scene
            if scene.broke_off:
                return
    finally:
        stage.close()


def _title(step: Step) -> str:
    """What the step's own documentation says of it."""
    return (step.__doc__ or step.__name__).strip().splitlines()[0].rstrip(".")
