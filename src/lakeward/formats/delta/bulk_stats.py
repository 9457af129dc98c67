"""Statistics of very many files in Delta's JSON, converted as text without parsing any of it.

For numbers and strings the log's text and Delta's differ in their keys alone. Inside a JSON string
a quote has a backslash before it, so `{"7":` and `,"7":` are always keys.
"""

from __future__ import annotations

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.formats.delta.values import spelled_as_they_are, stats_text
from lakeward.model.schema import Schema


def stats_texts(texts: pa.Array, rows: pa.Array, has_vector: pa.Array, schema: Schema) -> pa.Array:
    """Delta's `stats` of files, from the texts of `FileStats.to_json` where there are any."""
    names = spelled_as_they_are(schema)
    if names is None:
        return _one_by_one(texts, rows, has_vector, schema)
    done = _renamed(texts, rows, names)
    # What the keys alone do not tell: no rows, missing bounds, columns that are gone, vectors.
    unsure = pc.or_(
        pc.or_(pc.is_null(done), has_vector),
        pc.match_substring_regex(pc.fill_null(done, ""), r':null|[{,]"[0-9]+":'),
    )
    if not pc.any(unsure, min_count=0).as_py():
        return done
    left = (texts.filter(unsure), rows.filter(unsure), has_vector.filter(unsure))
    mended = _one_by_one(left[0], left[1], left[2], schema)
    return pc.replace_with_mask(done, unsure, mended)


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


def _one_by_one(texts: pa.Array, rows: pa.Array, has_vector: pa.Array, schema: Schema) -> pa.Array:
    columns = (texts.to_pylist(), rows.to_pylist(), has_vector.to_pylist())
    each = zip(*columns, strict=True)
    return pa.array([_stats(t, n, schema, has_vector=v) for t, n, v in each], pa.string())


def _stats(text: str | None, rows: int | None, schema: Schema, *, has_vector: bool) -> str | None:
    if text is not None:
        return stats_text(text, rows, schema, has_vector=has_vector)
    return None if rows is None else orjson.dumps({"numRecords": rows}).decode()
