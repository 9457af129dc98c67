"""Transforms: their spelling, what they refuse, and their values.

The expected values are literal: Iceberg's are those of its specification (Appendix B, and the table
of transforms), Spark's are what Spark 4.1.3 gave for the expression of a generated column.
"""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime
from decimal import Decimal as Exact
from typing import Any

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.errors import InvalidInput
from lakeward.model.bucket import murmur3, spark_murmur3
from lakeward.model.calendar import civil, first_of_year
from lakeward.model.transform import Rules, Term, Transform, parse_term
from lakeward.model.types import Decimal, ListOf, Primitive, Type
from lakeward.model.types import Field as Part
from lakeward.model.values import Value, from_neutral, to_neutral

INT, LONG, TEXT, BYTES = (Primitive(n) for n in ("int32", "int64", "string", "binary"))
DATE, MOMENT, LOCAL = (Primitive(n) for n in ("date", "timestamp", "timestamp_ntz"))
WHOLE_INT = 2**31 - 1


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def applied(transform: str, kind: Type, value: Any, rules: Rules = Rules.ICEBERG) -> Any:
    found = Transform.parse(transform, rules)
    out = found.apply(kind, to_neutral(kind, value))
    return from_neutral(found.result(kind), out)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (INT, 34, 2017239379),
        (LONG, 34, 2017239379),
        (Primitive("int8"), 34, 2017239379),
        (Decimal(9, 2), Exact("14.20"), -500754589),
        (DATE, date(2017, 11, 16), -653330422),
        (MOMENT, at("2017-11-16T22:31:08"), -2047944441),
        (MOMENT, at("2017-11-16T22:31:08.000001"), -1207196810),
        (Primitive("timestamp_ntz"), datetime(2017, 11, 16, 22, 31, 8), -2047944441),  # noqa: DTZ001
        (TEXT, "iceberg", 1210000089),
        (BYTES, bytes([0, 1, 2, 3]), -188683207),
    ],
)
def test_iceberg_buckets_follow_the_specification(kind: Type, value: Any, expected: int) -> None:
    # In as many buckets as there are, the bucket is the hash without its sign.
    assert applied(f"bucket[{WHOLE_INT}]", kind, value) == (expected & WHOLE_INT) % WHOLE_INT


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Primitive("int8"), -7, -1618159745),
        (Primitive("int16"), 300, -2133297984),
        (INT, -(2**31), 723455942),
        (INT, 0, 933211791),
        (INT, 34, -1191485789),
        (LONG, 34, -691554788),
        (LONG, -(2**63), -853646085),
        (TEXT, "", 142593372),
        (TEXT, "a", 1485273170),
        (TEXT, "ab", -97053317),
        (TEXT, "abc", 1322437556),
        (TEXT, "abcd", -396302900),
        (TEXT, "abcde", 814637928),
        (TEXT, "iceberg", 772410301),
        (TEXT, "Zürich", -761243618),
        (TEXT, "😀ü", 688120604),
        (BYTES, bytes([0, 1, 2, 3]), -1066376783),
        (BYTES, bytes([0xFF, 0x80]), -577813652),
        (DATE, date(2017, 11, 16), 526832025),
        (DATE, date(1969, 12, 31), -1604776387),
        (MOMENT, at("2017-11-16T22:31:08"), -1586804787),
        (LOCAL, datetime(2017, 11, 16, 22, 31, 8, 1), 1310378583),  # noqa: DTZ001
        (Decimal(9, 2), Exact("14.20"), -2047835571),
        (Decimal(18, 2), Exact("-14.20"), 1955243097),
        (Decimal(19, 2), Exact("14.20"), 1761037121),
        (Decimal(38, 0), Exact("-128"), 775851899),
        (Decimal(38, 0), Exact("9" * 38), -817514053),
        (TEXT, None, 42),
        (LONG, None, 42),
    ],
)
def test_spark_buckets_are_those_of_its_hash(kind: Type, value: Any, expected: int) -> None:
    assert applied(f"bucket[{WHOLE_INT}]", kind, value, Rules.SPARK) == expected % WHOLE_INT
    assert applied("bucket[16]", kind, value, Rules.SPARK) == expected % 16


@pytest.mark.parametrize(
    ("transform", "kind", "value", "iceberg", "spark"),
    [
        ("year", MOMENT, at("2017-11-16T22:31:08"), 47, 2017),
        ("year", DATE, date(1969, 12, 31), -1, 1969),
        ("year", DATE, date(1, 1, 1), -1969, 1),
        ("month", MOMENT, at("2017-11-16T22:31:08"), 574, "2017-11"),
        ("month", DATE, date(1969, 12, 31), -1, "1969-12"),
        ("month", MOMENT, at("0999-03-01T05:06:07"), -11650, "0999-03"),
        ("day", MOMENT, at("2017-11-16T22:31:08"), date(2017, 11, 16), date(2017, 11, 16)),
        ("day", MOMENT, at("1969-12-31T23:59:59.999999"), date(1969, 12, 31), date(1969, 12, 31)),
        ("day", DATE, date(2017, 11, 16), date(2017, 11, 16), date(2017, 11, 16)),
        ("hour", MOMENT, at("2017-11-16T22:31:08"), 419686, "2017-11-16-22"),
        ("hour", MOMENT, at("1969-12-31T23:59:59.999999"), -1, "1969-12-31-23"),
        ("hour", MOMENT, at("0001-01-01T00:00:00"), -17259888, "0001-01-01-00"),
        ("hour", MOMENT, at("9999-12-31T23:59:59.999999"), 70389527, "9999-12-31-23"),
        ("truncate[10]", INT, 1, 0, 0),
        ("truncate[10]", INT, -1, -10, -10),
        ("truncate[10]", LONG, -7, -10, -10),
        ("truncate[50]", Decimal(9, 2), Exact("10.65"), Exact("10.50"), Exact("10.50")),
        ("truncate[50]", Decimal(9, 2), Exact("-10.65"), Exact("-11.00"), Exact("-11.00")),
        ("truncate[3]", TEXT, "iceberg", "ice", "ice"),
        ("truncate[3]", TEXT, "ic", "ic", "ic"),
        ("truncate[2]", TEXT, "😀üa", "😀ü", "😀ü"),
        ("year", MOMENT, None, None, None),
        ("truncate[3]", TEXT, None, None, None),
    ],
)
def test_values_under_both_rules(
    transform: str, kind: Type, value: Any, iceberg: Any, spark: Any
) -> None:
    assert applied(transform, kind, value) == iceberg
    assert applied(transform, kind, value, Rules.SPARK) == spark


def test_bytes_are_cut_as_bytes() -> None:
    assert applied("truncate[2]", BYTES, b"\x00\xff\x01") == b"\x00\xff"


def test_hidden_values_read_as_dates_and_hours() -> None:
    def text(name: str, kind: Type, value: Value) -> str:
        transform = Transform.parse(name)
        return transform.text(transform.result(kind), value)

    assert text("year", MOMENT, 56) == "2026"
    assert text("month", MOMENT, -1) == "1969-12"
    assert text("day", MOMENT, 20454) == "2026-01-01"
    assert text("hour", MOMENT, -1) == "1969-12-31-23"
    assert text("bucket[16]", LONG, 7) == "7"
    assert text("truncate[2]", TEXT, "ab") == "ab"


@pytest.mark.parametrize(
    ("transform", "kind", "value"),
    [
        ("truncate[10]", INT, -(2**31)),
        ("truncate[10]", Primitive("int8"), -128),
        ("truncate[10]", Decimal(3, 0), Exact(-999)),
    ],
)
def test_truncation_that_leaves_the_type_has_no_value(
    transform: str, kind: Type, value: Any
) -> None:
    with pytest.raises(ValueError, match="no multiple of 10 below"):
        applied(transform, kind, value)


def test_texts_have_no_place_for_years_of_five_digits() -> None:
    far = (date(9999, 12, 31) - date(1970, 1, 1)).days + 1
    assert Transform("year", rules=Rules.SPARK).apply(DATE, far) == 10000
    with pytest.raises(ValueError, match="four digits"):
        Transform("month", rules=Rules.SPARK).apply(DATE, far)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("region", Term("identity", None, "region")),
        ("identity(region)", Term("identity", None, "region")),
        ("day(ts)", Term("day", None, "ts")),
        (" Days ( ts ) ", Term("day", None, "ts")),
        ("hours(ts)", Term("hour", None, "ts")),
        ("bucket(16, id)", Term("bucket", 16, "id")),
        ("BUCKET(16,id)", Term("bucket", 16, "id")),
        ("truncate(4, a name)", Term("truncate", 4, "a name")),
        ("year(`odd ``(name)`)", Term("year", None, "odd `(name)")),
        ("month(a,b)", Term("month", None, "a,b")),
    ],
)
def test_terms_as_users_write_them(text: str, expected: Term) -> None:
    assert parse_term(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("week(ts)", "'week' in 'week\\(ts\\)' is not a partition transform"),
        ("void(ts)", "not a partition transform"),
        ("bucket(id)", "takes a whole number and a column"),
        ("bucket(id, 16)", "takes a whole number and a column"),
        ("bucket(0, id)", "takes a whole number and a column"),
        ("truncate(-4, id)", "takes a whole number and a column"),
        ("truncate(99999999999, id)", "takes a whole number and a column"),
        ("bucket(2147483648, id)", "takes a whole number and a column"),
    ],
)
def test_terms_that_make_no_sense_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        parse_term(text)


@pytest.mark.parametrize("text", ["identity", "year", "void", "bucket[16]", "truncate[4]"])
def test_the_spelling_of_icebergs_metadata_comes_back(text: str) -> None:
    assert str(Transform.parse(text)) == text


@pytest.mark.parametrize("text", ["", "bucket", "bucket[]", "bucket[0]", "day[3]", "x", "year(ts)"])
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a partition transform"):
        Transform.parse(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hour", DATE),
        ("day", TEXT),
        ("year", LONG),
        ("bucket[4]", Primitive("double")),
        ("bucket[4]", Primitive("boolean")),
        ("truncate[4]", DATE),
        ("truncate[4]", Primitive("float")),
        ("identity", Primitive("double")),
        ("identity", ListOf(Part(1, "element", INT))),
        ("month", ListOf(Part(1, "element", DATE))),
    ],
)
def test_types_without_a_meaning_are_refused_by_name(text: str, kind: Type) -> None:
    for rules in Rules:
        with pytest.raises(InvalidInput, match="cannot partition a table") as caught:
            Transform.parse(text, rules).check(kind, "thing")
        assert caught.value.column == "thing"


def test_delta_has_no_partitions_of_bytes() -> None:
    Transform("truncate", 4).check(BYTES, "x")
    with pytest.raises(InvalidInput, match=r"truncate\(4, x\) cannot partition"):
        Transform("truncate", 4, Rules.SPARK).check(BYTES, "x")


_SOURCES: dict[str, tuple[Type, st.SearchStrategy[Any]]] = {
    "date": (DATE, st.integers(-720_000, 2_933_000)),
    "moment": (MOMENT, st.integers(-(10**17), 10**17)),
    "int": (INT, st.integers(-(2**31), 2**31 - 1)),
    "decimal": (Decimal(9, 2), st.integers(-(10**9), 10**9).map(lambda n: f"{Exact(n) / 100:.2f}")),
    "text": (TEXT, st.text(max_size=5)),
    "bytes": (BYTES, st.binary(max_size=5).map(lambda b: base64.b64encode(b).decode())),
}


_PAIRS = st.sampled_from(sorted(_SOURCES)).flatmap(
    lambda name: st.tuples(st.just(_SOURCES[name][0]), *[_SOURCES[name][1]] * 2)
)


@given(_PAIRS)
def test_ordered_transforms_keep_the_order(drawn: tuple[Type, Value, Value]) -> None:
    kind, *values = drawn
    low, high = sorted(values, key=lambda v: _comparable(kind, v))
    for name in ("identity", "year", "month", "day", "hour", "truncate[3]"):
        for rules in Rules:
            transform = Transform.parse(name, rules)
            try:
                transform.check(kind, "x")
                found = [transform.apply(kind, v) for v in (low, high)]
            except (InvalidInput, ValueError):
                continue
            below, above = (_comparable(transform.result(kind), v) for v in found)
            assert below <= above, (str(transform), rules)


def _comparable(kind: Type, value: Value) -> Any:
    return from_neutral(kind, value) if isinstance(value, str) else value


@given(st.binary(max_size=40))
def test_the_hash_is_the_published_one(data: bytes) -> None:
    assert murmur3(data) == mmh3.hash(data)


@given(st.binary(max_size=10).map(lambda b: b * 4))
def test_spark_hashes_whole_words_as_everybody_does(data: bytes) -> None:
    assert spark_murmur3(data) == mmh3.hash(data, 42)


@given(st.dates())
def test_days_are_counted_as_the_calendar_counts(day: date) -> None:
    assert civil((day - date(1970, 1, 1)).days) == (day.year, day.month, day.day)
    assert first_of_year(day.year) == (date(day.year, 1, 1) - date(1970, 1, 1)).days
