"""Leases that end when a test wants it, and not a minute later."""

from __future__ import annotations

import lakeward as lw
from lakeward.log.statement import Statement
from tests.support.inside import context_of

_RUN_OUT = Statement(
    "UPDATE lakeward_transaction SET lease_until_ms = :past WHERE transaction_id = :id"
)


def run_out(lake: lw.Lake, transaction_id: str, *, hours: float = 0) -> None:
    """Let a lease be over since some hours, as if its holder had been silent for long."""
    with context_of(lake).database.write() as session:
        past = context_of(lake).database.clock_ms(session) - 1 - int(hours * 3_600_000)
        assert session.run(_RUN_OUT, {"past": past, "id": transaction_id}) == 1
