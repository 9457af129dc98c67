"""Parameters of a query, as JSON and back."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakeward.errors import InvalidInput
from lakeward.model.parameter_values import of_json, to_json

VALUES: list[Any] = [
    None,
    True,
    7,
    -(2**63),
    2**80,
    0.25,
    math.inf,
    "it's",
    b"\x00\xff",
    Decimal("12.30"),
    date(2026, 2, 28),
    datetime(2026, 2, 28, 1, 2, 3, 456789, tzinfo=UTC),
    datetime(2026, 2, 28),  # noqa: DTZ001  a timestamp without zone
    [1, date(1, 1, 1)],
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_in_their_types(value: Any) -> None:
    for params in ([value], {"name": value}):
        found: Any = of_json(json.loads(json.dumps(to_json(params))))
        assert found == params
        (one,) = found.values() if isinstance(found, dict) else found
        assert type(one) is type(value)


def test_nan_comes_back() -> None:
    found: Any = of_json(json.loads(json.dumps(to_json([math.nan]))))
    assert math.isnan(found[0])


@pytest.mark.parametrize("params", ["text", b"octets", 7, [object()]])
def test_what_is_no_parameter_is_refused(params: Any) -> None:
    with pytest.raises(InvalidInput):
        to_json(params)
