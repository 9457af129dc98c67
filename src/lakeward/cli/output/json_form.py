"""One JSON object on standard output, whatever happens."""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any

import orjson

from lakeward.cli.output.base import Advance, Failure, Output, View


class JsonOutput(Output):
    """Answers for programs. Warnings become a list in the object."""

    def __init__(self) -> None:
        super().__init__()
        self._warnings: list[str] = []

    def show(self, view: View) -> None:
        """Print the answer."""
        self._print(view.to_json())

    def fail(self, failure: Failure) -> None:
        """Print `{"error": …}`."""
        error = {
            "type": failure.type,
            "message": failure.message,
            "hint": failure.hint,
            "facts": failure.facts,
        }
        self._print({"error": self.mask.deeply(plain(error))})

    def warn(self, text: str) -> None:
        """Keep it for the object."""
        self._warnings.append(self.mask(text))

    def note(self, text: str) -> None:
        """Nobody reads it."""

    @contextmanager
    def working(self, what: str) -> Generator[Advance]:  # noqa: ARG002  nobody looks
        """Nothing moves."""
        yield lambda _done, _total: None

    def _print(self, body: dict[str, Any]) -> None:
        if self._warnings:
            body = {**body, "warnings": self._warnings}
        indent = orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0
        sys.stdout.write(orjson.dumps(plain(body), option=indent).decode() + "\n")
        sys.stdout.flush()


def plain(value: Any) -> Any:
    """Values that JSON has.

    Moments are ISO 8601, with a zone unless a column has none; exact numbers and what JSON cannot
    say of floats are text; bytes are base64; text that is no Unicode has its bytes spelled out.
    """
    match value:
        case None | bool():
            return value
        case Enum():
            return plain(value.value)
        case int():
            return value if -(2**63) <= value < 2**64 else str(value)
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal() | PurePath():
            return plain(str(value))
        case Mapping():
            return {plain(str(k)): plain(v) for k, v in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(v) for v in value]
        case _:
            return plain(str(value))
