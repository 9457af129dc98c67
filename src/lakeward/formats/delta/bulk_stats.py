"""Statistics of very many files as Delta spells them, without parsing one of them.

The log's text and Delta's differ in their keys alone where bounds are spelled as they are: numbers
and strings. Keys are told from values by what stands around them: inside a JSON string a quote has
a backslash before it, so `{"7":` and `,"7":` are keys wherever they are found.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.formats.delta.values import spelled_as_they_are, stats_text
from lakeward.model.schema import Schema


def stats_texts(
    texts: Sequence[str | None],
    rows: Sequence[int | None],
    has_vector: Sequence[bool],
    schema: Schema,
) -> pa.Array:
    """Delta's `stats` of files.

    Args:
        texts: Of `FileStats.to_json`, where there is one.
        rows: How many each file has, where that is known.
        has_vector: Whether rows of it are deleted in place.
        schema: The table's.
    """
    names = spelled_as_they_are(schema)
    counts, source = pa.array(rows, pa.int64()), pa.array(texts, pa.string())
    if names is None:
        return pa.array(_one_by_one(texts, rows, has_vector, schema), pa.string())
    done = _renamed(source, counts, names)
    # What the keys alone do not tell: no rows, missing bounds, columns that are gone, vectors.
    unsure = pc.or_(
        pc.or_(pc.is_null(source), pc.is_null(counts)),
        pc.or_(
            pa.array(has_vector, pa.bool_()),
            pc.match_substring_regex(pc.fill_null(done, ""), r':null|[{,]"[0-9]+":'),
        ),
    )
    left = pc.indices_nonzero(unsure).to_pylist()
    if not left:
        return done
    mended = _one_by_one(
        [texts[i] for i in left], [rows[i] for i in left], [has_vector[i] for i in left], schema
    )
    return pc.replace_with_mask(done, unsure, pa.array(mended, pa.string()))


def _renamed(source: pa.Array, counts: pa.Array, names: dict[int, str]) -> pa.Array:
    out = pc.replace_substring(source, '{"min":{', ',"minValues":{', max_replacements=1)
    out = pc.replace_substring(out, ',"max":{', ',"maxValues":{', max_replacements=1)
    out = pc.replace_substring(out, ',"nulls":{', ',"nullCount":{', max_replacements=1)
    out = pc.replace_substring(out, '},"loose":true}', '},"tightBounds":false}')
    for field_id, name in names.items():
        key = orjson.dumps(name).decode()
        for before in "{,":
            out = pc.replace_substring(out, f'{before}"{field_id}":', f"{before}{key}:")
    return pc.binary_join_element_wise('{"numRecords":', pc.cast(counts, pa.string()), out, "")


def _one_by_one(
    texts: Sequence[str | None],
    rows: Sequence[int | None],
    has_vector: Sequence[bool],
    schema: Schema,
) -> list[str | None]:
    return [
        _stats(text, count, schema, has_vector=marked)
        for text, count, marked in zip(texts, rows, has_vector, strict=True)
    ]


def _stats(text: str | None, rows: int | None, schema: Schema, *, has_vector: bool) -> str | None:
    if text is not None:
        return stats_text(text, rows, schema, has_vector=has_vector)
    return None if rows is None else orjson.dumps({"numRecords": rows}).decode()
