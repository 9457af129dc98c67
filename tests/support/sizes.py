"""One test, two sizes: short in every run, full for the figures."""

from __future__ import annotations

from typing import Any

import pytest


def sizes(name: str, *, short: Any, full: Any, hours: float = 1.0) -> pytest.MarkDecorator:
    """Parametrise a test by size: `short` runs always, `full` by `make faults`."""
    marks = [pytest.mark.full, pytest.mark.timeout(hours * 3600)]
    return pytest.mark.parametrize(
        name, [pytest.param(short, id="short"), pytest.param(full, id="full", marks=marks)]
    )
