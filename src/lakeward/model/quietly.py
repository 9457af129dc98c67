"""Keeps the SQL parser's log messages about statements that it cannot parse from users."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_QUIET: Final = ContextVar("lakeward_quiet_parser", default=False)


def _passes(_: logging.LogRecord) -> bool:
    return not _QUIET.get()


@contextmanager
def quiet_parser() -> Generator[None]:
    """Drop the parser's messages in this thread; messages that others cause stay."""
    # Added again after somebody configured logging anew; the same filter is added only once.
    logging.getLogger("sqlglot").addFilter(_passes)
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)
