"""Generated columns: the expressions that we write, and those of others that we know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from lakeward.formats.delta.generated import ZONE, derived_of, expression, generated_field
from lakeward.formats.delta.parse import definition_of
from lakeward.formats.delta.protocol import is_writable
from lakeward.formats.delta.schema import EXPRESSION
from lakeward.model.definition import Definition
from lakeward.model.schema import Schema
from lakeward.model.transform import Rules, Transform
from lakeward.model.types import Decimal, Field, Primitive, Type

GUARDED = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["lakewardManaged"]}
OPEN = {"minReaderVersion": 1, "minWriterVersion": 4}
KINDS = (
    *(Primitive(n) for n in ("int8", "int16", "int32", "int64", "string", "binary", "date")),
    *(Primitive(n) for n in ("timestamp", "timestamp_ntz", "timestamp_ms", "timestamp_ms_ntz")),
    *(Decimal(9, 2), Decimal(37, 10), Decimal(18, 0)),
)
TRANSFORMS = ("year", "month", "day", "hour", "bucket[16]", "truncate[7]", "truncate[100]")


def schema_with(kind: Type, text: str, result: Type, name: str = "x", **more: Any) -> Schema:
    source = Field(1, name, kind)
    return Schema((source, Field(2, "g", result, metadata={EXPRESSION: text, **more})), 2)


@pytest.mark.parametrize("text", TRANSFORMS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_we_write_is_recognised(kind: Type, text: str) -> None:
    source = Field(1, "x", kind)
    transform = Transform.parse(text, Rules.SPARK)
    try:
        made = generated_field(2, "g", transform, source, guard=True)
    except ValueError:
        return
    (found,) = derived_of(Schema((source, made), 2), GUARDED).values()
    assert (found.source, found.transform, found.name, found.utc) == (1, transform, "g", True)


@pytest.mark.parametrize(
    ("kind", "text", "result", "expected"),
    [
        ("timestamp", "CAST(x AS DATE)", "date", "day"),
        ("timestamp", " cast( X as date ) ", "date", "day"),
        ("timestamp", "to_date(x)", "date", "day"),
        ("timestamp_ntz", "date(`x`)", "date", "day"),
        ("date", "EXTRACT(YEAR FROM x)", "int32", "year"),
        ("date", "date_format(x, 'yyyy-MM')", "string", "month"),
        ("string", "substr(x,1,3)", "string", "truncate[3]"),
        ("string", "SUBSTRING(x, 0, 3)", "string", "truncate[3]"),
        ("string", "left(x, 3)", "string", "truncate[3]"),
        ("int64", "PMOD(HASH(x), 8)", "int32", "bucket[8]"),
        ("int32", "x - pmod(x, 100)", "int32", "truncate[100]"),
    ],
)
def test_other_spellings_are_recognised(kind: str, text: str, result: str, expected: str) -> None:
    schema = schema_with(Primitive(kind), text, Primitive(result))
    (found,) = derived_of(schema, OPEN).values()
    assert str(found.transform) == expected
    assert found.source == 1


@pytest.mark.parametrize(
    ("kind", "text", "result"),
    [
        ("timestamp", "CAST(x AS DATE) + 1", "date"),
        ("timestamp", "CAST(y AS DATE)", "date"),
        ("string", "CAST(x AS DATE)", "date"),
        ("timestamp", "date_format(x, 'yyyy-mm')", "string"),
        ("timestamp", "date_format(x, 'yyyy/MM')", "string"),
        ("timestamp", "YEAR(x)", "int64"),
        ("timestamp", "date_trunc('DAY', x)", "timestamp"),
        ("string", "substring(x, 2, 3)", "string"),
        ("string", "substring(x, 1, 99999999999)", "string"),
        ("int64", "pmod(hash(x, x), 8)", "int32"),
        ("int64", "x - pmod(x, 0)", "int64"),
        ("int64", "x * 2", "int64"),
        ("string", "concat(x, 'a')", "string"),
        ("date", "", "date"),
    ],
)
def test_anything_else_stays_a_plain_column_that_we_do_not_write(
    kind: str, text: str, result: str
) -> None:
    schema = schema_with(Primitive(kind), text, Primitive(result))
    assert derived_of(schema, OPEN) == {}
    definition = Definition(schema, protocol=OPEN)
    assert not is_writable(definition)
    known = schema_with(Primitive("timestamp"), "YEAR(x)", Primitive("int32"))
    assert is_writable(Definition(known, protocol=OPEN, derived=derived_of(known, OPEN)))


def test_an_expression_that_is_no_text_is_left_alone() -> None:
    schema = schema_with(Primitive("date"), "", Primitive("date"))
    strange = replace(schema.fields[1], metadata={EXPRESSION: 7})
    assert derived_of(Schema((schema.fields[0], strange), 2), OPEN) == {}


def test_names_are_quoted_and_found_again_whatever_their_case() -> None:
    source = Field(1, "Odd `name", Primitive("date"))
    text = expression(Transform("year", rules=Rules.SPARK), source)
    assert text == "YEAR(`Odd ``name`)"
    schema = schema_with(Primitive("date"), text.upper(), Primitive("int32"), name="Odd `name")
    assert list(derived_of(schema, OPEN)) == [2]


@pytest.mark.parametrize(
    ("protocol", "mark", "utc"),
    [(GUARDED, "UTC", True), (GUARDED, None, False), (OPEN, "UTC", False), (OPEN, None, False)],
)
def test_only_guarded_tables_of_ours_are_believed_to_be_in_utc(
    protocol: dict[str, Any], mark: str | None, utc: bool
) -> None:
    more = {} if mark is None else {ZONE: mark}
    schema = schema_with(Primitive("timestamp"), "YEAR(x)", Primitive("int32"), **more)
    assert derived_of(schema, protocol)[2].utc is utc


def test_what_is_derived_is_known_by_ids_through_a_rename() -> None:
    """Spark renames a mapped column and rewrites the expression; the ids stay."""

    def metadata(name: str) -> dict[str, Any]:
        def field(name: str, own: int, kind: str, **more: Any) -> dict[str, Any]:
            mapping = {"delta.columnMapping.id": own, "delta.columnMapping.physicalName": f"p{own}"}
            return {"name": name, "type": kind, "nullable": True, "metadata": mapping | more}

        day = {EXPRESSION: f"CAST({name} AS DATE)"}
        fields = [
            field("id", 1, "long"),
            field(name, 2, "timestamp"),
            field("day", 3, "date", **day),
        ]
        return {
            "id": "0",
            "schemaString": orjson.dumps({"type": "struct", "fields": fields}).decode(),
            "partitionColumns": ["day"],
            "configuration": {"delta.columnMapping.mode": "name"},
        }

    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    before = definition_of(metadata("ts"), protocol, None)
    after = definition_of(metadata("moment"), None, before)
    assert before.derived == after.derived
    (found,) = after.derived.values()
    assert after.schema.by_id[found.source].name == "moment"
    assert after.partitioning == ["day(moment)"]


def test_a_new_protocol_alone_is_reflected() -> None:
    schema = schema_with(Primitive("timestamp"), "YEAR(x)", Primitive("int32"), **{ZONE: "UTC"})
    before = Definition(schema, protocol=GUARDED, derived=derived_of(schema, GUARDED))
    after = definition_of(None, OPEN, before)
    assert before.derived[2].utc
    assert not after.derived[2].utc
