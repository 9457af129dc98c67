"""What code a pipeline is made of: hashes for the bundle, and where a step's function stands."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Code:
    """A function of a step, as it was when it was declared.

    Attributes:
        function: Its name.
        file: Where it stands, if that is known.
        line: Its first line there.
        sha256: Of its source; of what it was compiled to where there is no source.
        file_sha256: Of the whole file, which has helpers of the function too; None without a file.
    """

    function: str
    file: str | None
    line: int | None
    sha256: str
    file_sha256: str | None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Code:
        """The code of a function, or of any other thing that can be called."""
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
        """The code as the bundle has it."""
        return {
            "function": self.function,
            "file": self.file,
            "line": self.line,
            "sha256": self.sha256,
            "file_sha256": self.file_sha256,
        }

    def line_of(self, raised: TracebackType | None) -> int | None:
        """The line of this code's file at which an error was raised, or of the function."""
        found = self.line
        while raised is not None:
            if raised.tb_frame.f_code.co_filename == self.file:
                found = raised.tb_lineno
            raised = raised.tb_next
        return found


def of_pipeline(steps: Mapping[str, tuple[Code, Mapping[str, Any]]]) -> dict[str, Any]:
    """Hashes of a pipeline: of each step, and one of all with what they declare.

    Names of files are not part of the hashes, so that they are the same on every machine.
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
