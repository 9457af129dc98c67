"""The other process: runs the scripts that it is told, each in transactions of its own."""

from __future__ import annotations

from multiprocessing.connection import Connection

from tests.property.play import Attempt, Player, embedded
from tests.property.script import Script
from tests.support.processes import Worker, start
from tests.support.target import LakeTarget


class Rival:
    """A process that commits to the same lake.

    Args:
        target: The lake.
    """

    def __init__(self, target: LakeTarget) -> None:
        self._worker: Worker = start(_work, target)

    def __call__(self, script: Script) -> list[Attempt]:
        """Run a script to its end."""
        self.begin([script])
        return self.finish()

    def begin(self, scripts: list[Script]) -> None:
        """Let it run scripts while we go on."""
        self._worker.tell(scripts)

    def finish(self) -> list[Attempt]:
        """Wait until they are done; all that was begun."""
        found = self._worker.hear()
        if isinstance(found, BaseException):
            raise found
        out: list[Attempt] = found
        return out

    def end(self) -> None:
        """Let the process end."""
        self._worker.tell(None)
        self._worker.finish()


def _work(pipe: Connection, target: LakeTarget) -> None:
    with target.open() as lake:
        player = Player(lake, embedded, _nobody)
        while (scripts := pipe.recv()) is not None:
            try:
                pipe.send([attempt for script in scripts for attempt in player.play(script)])
            except Exception as error:  # noqa: BLE001  told to whoever asked
                error.add_note("in the other process")
                pipe.send(error)


def _nobody(script: Script) -> list[Attempt]:
    raise AssertionError(script)
