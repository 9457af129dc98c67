"""Errors for damaged logs, with the location, the version, what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from lakeward.errors import CorruptTable, LakewardError

HINT: Final = (
    "Restore the file from a backup, or repair the table with the engine that wrote it, "
    "then try again."
)


def damaged(location: str, version: int | None, what: str, *, hint: str = HINT) -> CorruptTable:
    """Return the error for a log that cannot be read."""
    where = "" if version is None else f" at version {version}"
    text = f"The Delta table at {location} is damaged{where}: {what}."
    return CorruptTable(text, hint=hint, table=location, location=location, version=version)


@contextmanager
def understanding(location: str, version: int | None) -> Generator[None]:
    """Convert any error while reading foreign bytes into `CorruptTable` with the location."""
    try:
        yield
    except CorruptTable as error:
        if "location" in error.facts:
            raise
        what = error.what[:1].lower() + error.what[1:].rstrip(".")
        raise damaged(location, version, what, hint=error.hint or HINT) from error
    except LakewardError:
        raise
    except KeyError as error:
        raise damaged(location, version, f"{error.args[0]!r} is missing in an action") from error
    except RecursionError as error:
        raise damaged(location, version, "it is nested too deeply") from error
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        TypeError,
        ValueError,
        pa.ArrowException,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise damaged(location, version, reason[:300].rstrip(".")) from error
