"""Random tables and conditions: no row more or less than the evaluator says, read or deleted.

`make faults` runs 10,000 conditions with a seed that is new each time and printed;
`LAKEWARD_SEED=<seed>` repeats them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lakeward as lw
from tests.behaviour.iceberg.theirs import their_catalog
from tests.foreign.examine import Examination, Figures
from tests.foreign.random_delta import random_delta
from tests.foreign.random_iceberg import random_iceberg
from tests.foreign.random_own import random_own
from tests.foreign.subject import Subject
from tests.support.sizes import sizes

pytestmark = pytest.mark.slow

amount = sizes("amount", short=(6, 24), full=(140, 24))
"""How many tables, and how many conditions on each."""

Examine = Callable[[int, int], None]


@amount
@pytest.mark.parametrize("writer", ["deltalake", "pyiceberg", "lakeward"])
def test_conditions_on_random_tables(
    tmp_path: Path, writer: str, amount: tuple[int, int], request: pytest.FixtureRequest
) -> None:
    tables, conditions = amount
    is_full = "full" in request.node.callspec.id
    first = int(os.environ.get("LAKEWARD_SEED", time.time_ns() % 10**9)) if is_full else 0
    print(f"LAKEWARD_SEED={first}")
    figures, began = Figures(), time.monotonic()
    with _examining(tmp_path, writer, figures, 1.0 if is_full else 0.25) as examine:
        for seed in range(first, first + tables):
            examine(seed, conditions)
    print(f"\n{writer}, seeds from {first}: {figures} in {time.monotonic() - began:.0f} s")


@contextmanager
def _examining(place: Path, writer: str, figures: Figures, deletes: float) -> Generator[Examine]:
    with lw.open(place / "lake") as lake, their_catalog(place / "theirs") as catalog:
        examination = Examination(lake, figures, deletes=deletes)

        def own(seed: int, conditions: int) -> None:
            subject = random_own(lake, f"own.t{seed}", seed)
            examination.of_table(lake.table(f"own.t{seed}"), subject, seed, conditions)

        def delta(seed: int) -> Subject:
            return random_delta(place / f"t{seed}", seed)

        def iceberg(seed: int) -> Subject:
            return random_iceberg(catalog, seed)

        def foreign(make: Callable[[int], Subject]) -> Examine:
            return lambda seed, conditions: examination.of(make(seed), seed, conditions)

        yield {"deltalake": foreign(delta), "pyiceberg": foreign(iceberg), "lakeward": own}[writer]
