"""The capabilities of each engine, and the error that names an engine with a needed capability."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from lakeward.errors import UnsupportedFeature


class Capability(Enum):
    """An operation that an engine may support; the value describes it."""

    READ_FILES = "read the rows of data files"
    READ_NEWEST = "read the newest version with every operation (isolation='read_committed')"
    WRITE_ROWS = "write rows as data files"
    WRITE_FOREIGN_FEATURES = "write tables with features that the lake itself does not implement"
    CHECK_CONSTRAINTS = "check constraints"
    WRITE_CHANGE_ROWS = "write the rows by which two versions differ"
    REPLAY = "make changes again on a newer version"
    ADD_FILES = "add and remove files by name"
    RUN_SQL = "run statements of Spark"


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine and its capabilities."""

    name: str  # the name in errors
    how: str  # what a user calls to use the engine
    can: frozenset[Capability]  # its capabilities


ARROW: Final = Engine(
    "the embedded engine",
    "lake.transaction() without spark=",
    frozenset(
        {
            Capability.READ_FILES,
            Capability.READ_NEWEST,
            Capability.WRITE_ROWS,
            Capability.CHECK_CONSTRAINTS,
            Capability.WRITE_CHANGE_ROWS,
            Capability.REPLAY,
            Capability.ADD_FILES,
        }
    ),
)
DATAFUSION: Final = Engine(
    "DataFusion",
    "table.to_arrow(), outside the transaction",
    frozenset(
        {Capability.READ_FILES, Capability.WRITE_CHANGE_ROWS},
    ),
)
SPARK: Final = Engine(
    "Spark",
    "lake.transaction(spark=spark)",
    frozenset(
        {
            Capability.READ_FILES,
            Capability.WRITE_ROWS,
            Capability.WRITE_FOREIGN_FEATURES,
            Capability.CHECK_CONSTRAINTS,
            Capability.WRITE_CHANGE_ROWS,
            Capability.RUN_SQL,
        }
    ),
)
ENGINES: Final = (ARROW, DATAFUSION, SPARK)


def unsupported(
    engine: Engine, needed: Capability, what: str | None = None, *, hint: str = "", **facts: Any
) -> UnsupportedFeature:
    """Return the error for an operation that an engine does not support; it names one that does.

    Args:
        engine: The engine in use.
        needed: The missing capability.
        what: What happened, if it is more specific than the missing capability.
        hint: Further advice.
        **facts: Attributes of the error.
    """
    said = what or f"{engine.name[0].upper()}{engine.name[1:]} cannot {needed.value}."
    able = [other for other in ENGINES if needed in other.can]
    ways = "; or ".join(f"{other.name} can: {other.how}" for other in able)
    advice = f"{ways[0].upper()}{ways[1:]}. {hint}".strip() if able else hint
    return UnsupportedFeature(said, hint=advice, **facts)
