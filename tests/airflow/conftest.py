"""These tests run in an environment of their own: `make airflow`."""

from __future__ import annotations

import importlib.util

import pytest

_REASON = "Airflow is not in this environment: make airflow builds one and runs these tests"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs Airflow where it is not installed."""
    if importlib.util.find_spec("airflow") is None:
        for item in items:
            if "tests/airflow" in str(item.path):
                item.add_marker(pytest.mark.skip(reason=_REASON))
