"""Columns as they are typed on a command line."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeward.errors import InvalidInput
from lakeward.model.columns import parse_columns
from lakeward.model.schema import Schema
from lakeward.model.types import PRIMITIVES


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_every_simple_type_can_be_typed(name: str) -> None:
    assert parse_columns(f"c {name}").field("c").type == PRIMITIVES[name]
    assert parse_columns(f"c {name.upper()}").field("c").type == PRIMITIVES[name]


def test_nested_types_are_spelled_as_they_are_shown() -> None:
    text = (
        "id int64 not null, tags list<string>, m map<string, list<int64>>, "
        "s struct<a: int32, b: struct<c: decimal(10,2)>>"
    )
    schema = parse_columns(text)
    assert not schema.field("id").nullable
    assert schema.field("tags").nullable
    shown = ", ".join(
        f"{f.name} {f.type}{'' if f.nullable else ' not null'}" for f in Schema.from_arrow(schema)
    )
    assert shown == text
    assert parse_columns(shown) == schema


def test_names_that_are_no_words_are_quoted() -> None:
    schema = parse_columns('"my ""col""" int64, `another one` string, größe double')
    assert schema.names == ['my "col"', "another one", "größe"]
    assert schema.field("größe").type == pa.float64()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "id",
        "id,",
        "id int64,",
        "id int64 string",
        "id int64 not",
        "id int64 not empty",
        "id int65",
        "id list",
        "id list<",
        "id list<string",
        "id map<string>",
        "id struct<>",
        "id struct<a int64>",
        "id decimal",
        "id decimal(99,2)",
        "id decimal(x,2)",
        "id int64; drop table x",
        '"" int64',
        "(id int64)",
        "a " + "list<" * 100 + "int64" + ">" * 100,
    ],
)
def test_what_is_no_list_of_columns_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be understood"):
        parse_columns(text)
