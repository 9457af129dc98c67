"""The code of a pipeline: its hashes for the bundle, and errors that name the step's function."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Final

import orjson

from lakeward.errors import LakewardError, StepFailed

_CAUSES: Final = re.compile(r"^\s*Caused by: [\w.$]*?(\w+): (.*)$", re.MULTILINE)
# The last line of the Python traceback of a function that Spark calls for rows.
_PYTHON: Final = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+([\w.]+(?:: .*)?)$", re.MULTILINE
)
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class Code:
    """A step's function when declared: name, file, line, and hashes of the function and the file.

    The function's hash is of its source; without source, of its bytecode.
    """

    function: str
    file: str | None
    line: int | None
    sha256: str
    file_sha256: str | None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Code:
        """Return the code of a function or of another callable."""
        inner = inspect.unwrap(function)
        name = getattr(inner, "__qualname__", type(inner).__qualname__)
        compiled: CodeType | None = getattr(inner, "__code__", None)
        if compiled is None:
            return cls(name, None, None, _sha256(name.encode()), None)
        try:
            own = inspect.getsource(inner).encode()
        except (OSError, TypeError):
            own = _compiled(compiled)
        return cls(
            name, compiled.co_filename, compiled.co_firstlineno, _sha256(own), _file(compiled)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the code in the form in which bundles store it."""
        return asdict(self)

    def line_of(self, raised: TracebackType | None) -> int | None:
        """Return the line of this code's file at which an error was raised.

        If the traceback has no line of that file, return the function's first line.
        """
        found = self.line
        while raised is not None:
            if raised.tb_frame.f_code.co_filename == self.file:
                found = raised.tb_lineno
            raised = raised.tb_next
        return found


def of_pipeline(steps: Mapping[str, tuple[Code, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the hashes of a pipeline: one of each step, and one of all with their declarations.

    File names are not part of the hashes, so that they are the same on every machine.
    """
    whole = [
        [table, code.sha256, code.file_sha256, declared]
        for table, (code, declared) in sorted(steps.items())
    ]
    body = orjson.dumps(whole, default=str, option=orjson.OPT_SORT_KEYS)
    return {
        "sha256": _sha256(body),
        "steps": {table: code.to_json() for table, (code, _) in sorted(steps.items())},
    }


@contextmanager
def errors_of(table: str, code: Code) -> Generator[None]:
    """Turn an error of a step's own code into `StepFailed`; add the step to Lakeward's errors."""
    try:
        yield
    except LakewardError as error:
        error.facts.setdefault("step", table)
        raise
    except Exception as error:
        line = code.line_of(error.__traceback__)
        where = f"{code.file}:{line}" if code.file else "no file"
        what = (
            f"The step for {table} failed in {code.function} ({where}):"
            f" {type(error).__name__}: {_message(error)}"
        )
        raise StepFailed(
            what,
            hint="Nothing was committed. The cause is in the step's own code or its rows.",
            table=table,
            step=table,
            function=code.function,
            file=code.file,
            line=line,
            error=type(error).__name__,
        ) from error


def _message(error: Exception) -> str:
    """Return an error's message as one line; for a Java trace, the message of the deepest cause."""
    said = str(error).strip()
    raised = _PYTHON.search(said)
    if raised is not None:
        said = raised[1]
    causes = _CAUSES.findall(said)
    text = f"{causes[-1][0]}: {causes[-1][1]}" if causes else said.split("\n\n", 1)[0]
    shortened = " ".join(text.split())
    return shortened if len(shortened) <= _LONGEST else f"{shortened[:_LONGEST]}…"


def _file(compiled: CodeType) -> str | None:
    try:
        return _sha256(Path(compiled.co_filename).read_bytes())
    except OSError:
        return None


def _compiled(compiled: CodeType) -> bytes:
    constants = [
        _compiled(c).hex() if isinstance(c, CodeType) else repr(c) for c in compiled.co_consts
    ]
    return compiled.co_code + repr((compiled.co_names, constants)).encode()


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
