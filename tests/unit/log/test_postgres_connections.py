"""Connections of PostgreSQL that nobody uses any more are closed."""

from __future__ import annotations

import gc
import warnings

import pytest

from lakeward.log.drivers.postgres import PostgresDatabase
from lakeward.log.statement import Statement

pytestmark = pytest.mark.postgres


def test_a_connection_that_is_given_back_after_the_end_is_closed(postgres_url: str) -> None:
    """As by a thread in the background that still reads when the lake is closed."""
    database = PostgresDatabase(postgres_url)
    with database.read() as session:
        database.close()
        assert session.row(Statement("SELECT 1"))[0] == 1

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        del session, database
        gc.collect()

    assert [str(w.message) for w in found if issubclass(w.category, ResourceWarning)] == []
