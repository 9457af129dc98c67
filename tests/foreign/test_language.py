"""The evaluator itself: what it says where the rules of docs/reading.md are easy to get wrong."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.foreign.language import (
    DAY,
    Failure,
    Term,
    between,
    both,
    calculate,
    call,
    cast,
    civil,
    column,
    compare,
    constant,
    either,
    is_nan,
    like,
    member,
    negated,
    single,
)

_X = column("x", "double")
_NAN = constant("CAST('NaN' AS DOUBLE)", "double", math.nan)
_ONE = constant("1", "int64", 1)
_NULL = constant("NULL", "double", None)


@pytest.mark.parametrize(
    ("term", "value", "expected"),
    [
        (compare("=", _X, _NAN), math.nan, True),
        (compare(">", _X, constant("CAST('inf' AS DOUBLE)", "double", math.inf)), math.nan, True),
        (compare("<", _X, _ONE), math.nan, False),
        (compare("=", _X, constant("0e0", "double", 0.0)), -0.0, True),
        (compare("=", _X, _ONE), None, None),
        (compare("<=>", _X, _NULL), None, True),
        (compare("<=>", _X, _NULL), 1.0, False),
        (compare("IS DISTINCT FROM", _X, _ONE), None, True),
        (member(_X, [_ONE, _NULL]), 2.0, None),
        (member(_X, [_ONE, _NULL]), 1.0, True),
        (member(_X, [_ONE, _NULL], positive=False), 2.0, None),
        (between(_X, _NULL, _ONE), 2.0, False),
        (between(_X, _NULL, _ONE, positive=False), 2.0, True),
        (both([compare("=", _X, _ONE), compare("=", _X, _NULL)]), 2.0, False),
        (either([compare("=", _X, _ONE), compare("=", _X, _NULL)]), 2.0, None),
        (negated(compare("=", _X, _NULL)), 2.0, None),
        (is_nan(_X), None, False),
        (calculate("/", _X, constant("0", "int64", 0)), 1.0, None),
    ],
    ids=str,
)
def test_a_term_means_what_the_page_says(term: Term, value: Any, expected: Any) -> None:
    assert term.of({"x": value}) is expected


def test_patterns_and_members_of_structs() -> None:
    s = column("s.a", "string")
    assert s.sql == "`s`.`a`"
    assert like(s, "a\\%_").of({"s": {"a": "a%\n"}}) is True
    assert like(s, "a%").of({"s": None}) is None


def test_a_float_of_32_bits_is_not_the_number_that_was_written() -> None:
    narrow = column("x", "float")
    value = {"x": single(30.4)}
    assert compare("<", narrow, constant("30.4", "double", 30.4)).of(value) is True
    assert compare("=", narrow, constant("CAST('30.4' AS FLOAT)", "float", single(30.4))).of(value)


def test_a_remainder_is_exact_and_has_the_sign_of_what_is_divided() -> None:
    rest = calculate("%", column("x", "int64"), constant("2", "int64", 2))
    assert [rest.of({"x": x}) for x in (2**63 - 1, -7, 0, None)] == [1, -1, 0, None]


def test_years_beyond_those_of_python() -> None:
    assert civil(-4_371_587 * DAY) == (-9999, 1, 1)
    assert civil(-719_163 * DAY) == (0, 12, 31)
    assert civil(2_932_896 * DAY) == (9999, 12, 31)


def test_what_does_not_fit_fails() -> None:
    tiny = column("x", "int8")
    for term in (call("abs", tiny), cast(cast(tiny, "int64"), "decimal(2,0)")):
        with pytest.raises(Failure):
            term.of({"x": -128})
