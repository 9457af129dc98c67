"""Errors of a step: whose they are, and where they happened."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from lakeward.errors import LakewardError, StepFailed
from lakeward.pipeline.declaration import Step

_CAUSES: Final = re.compile(r"^\s*Caused by: [\w.$]*?(\w+): (.*)$", re.MULTILINE)
# Of a function that Spark calls for rows, the line at the end of Python's traceback.
_PYTHON: Final = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+([\w.]+(?:: .*)?)$", re.MULTILINE
)
_LONGEST: Final = 500


@contextmanager
def blamed_on(step: Step) -> Generator[None]:
    """Turn any error of others into one of the step, and say of the lake's own which step it was.

    Raises:
        StepFailed: The step's function raised, or Spark could not compute the rows it returned.
    """
    try:
        yield
    except LakewardError as error:
        error.facts.setdefault("step", str(step.target))
        raise
    except Exception as error:
        raise _failed(step, error) from error


def _failed(step: Step, error: Exception) -> StepFailed:
    code = step.code
    line = code.line_of(error.__traceback__)
    where = f"{code.file}:{line}" if code.file else "no file"
    what = (
        f"The step for {step.target} failed in {code.function} ({where}):"
        f" {type(error).__name__}: {_told(error)}"
    )
    return StepFailed(
        what,
        hint="Nothing was committed. The cause is in the step's own code or its rows.",
        table=str(step.target),
        step=str(step.target),
        function=code.function,
        file=code.file,
        line=line,
        error=type(error).__name__,
    )


def _told(error: Exception) -> str:
    """What an error says, in a line: of a Java trace, the deepest cause."""
    said = str(error).strip()
    raised = _PYTHON.search(said)
    if raised is not None:
        said = raised[1]
    causes = _CAUSES.findall(said)
    text = f"{causes[-1][0]}: {causes[-1][1]}" if causes else said.split("\n\n", 1)[0]
    shortened = " ".join(text.split())
    return shortened if len(shortened) <= _LONGEST else f"{shortened[:_LONGEST]}…"
