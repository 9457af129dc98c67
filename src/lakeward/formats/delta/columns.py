"""Converts files of the log to `add` actions in Arrow columns, without a Python object per file.

Statistics are converted as text. For numbers and strings the log's text and Delta's differ in their
keys alone; inside a JSON string a quote has a backslash before it, so `{"7":` is always a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from lakeward.errors import CorruptTable
from lakeward.formats.delta.checkpoint import ADD, VECTOR
from lakeward.formats.delta.schema import physical_name
from lakeward.formats.delta.values import log_path, partition_text, stats_text, unconverted_names
from lakeward.formats.delta.vectors import absolute_vector, address
from lakeward.model.file import LINE_SEPARATOR, Lines
from lakeward.model.schema import Schema
from lakeward.model.values import from_json

_TEXT: Final = pa.string()
_COLUMNS: Final = pa.schema(
    [
        ("path", _TEXT),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("written", pa.int64()),
        ("partition", _TEXT),
        ("stats", _TEXT),
        ("vector", _TEXT),
        ("extra", _TEXT),
    ]
)
"""The columns of a line of the log; the last four are JSON."""
_PLAIN: Final = r"^[A-Za-z0-9_.=-][A-Za-z0-9_./=-]*$"
_EXTRA: Final = ("tags", "baseRowId", "defaultRowCommitVersion", "clusteringProvider")


def adds_of(lines: Lines, schema: Schema) -> pa.StructArray:
    """Return files, given as lines of `log.files.lines_at`, as `add` actions of their table."""
    found = _parsed(lines)
    return _adds(found, schema, _written(found["path"], found["extra"]), lambda vector: vector)


def absolute_adds(lines: Lines, schema: Schema, root: str, *, as_spark: bool) -> pa.StructArray:
    """Return files by full addresses below `root`, as `add` actions of another log."""
    found = _parsed(lines)
    paths = _addresses(found["path"], root, as_spark=as_spark)
    return _adds(found, schema, paths, lambda vector: absolute_vector(vector, root))


def _adds(
    found: Mapping[str, pa.Array],
    schema: Schema,
    paths: pa.Array,
    vector: Callable[[dict[str, Any]], Any],
) -> pa.StructArray:
    has_vector = pc.is_valid(found["vector"])
    columns: dict[str, pa.Array] = {
        "path": paths,
        "partitionValues": _maps(found["partition"], schema),
        "size": found["size"],
        "modificationTime": found["written"],
        "dataChange": pa.repeat(False, len(paths)),
        "stats": stats_texts(found["stats"], found["rows"], has_vector, schema),
        "deletionVector": _each(found["vector"], VECTOR, vector),
    }
    for name in _EXTRA:
        columns[name] = _each(found["extra"], ADD.field(name).type, partial(_extra, name))
    return pa.StructArray.from_arrays([columns[f.name] for f in ADD], fields=list(ADD))


def _parsed(lines: Lines) -> dict[str, pa.Array]:
    """Return the columns of lines, by Arrow's CSV reader unless a path has a line end in it."""
    options = csv.ParseOptions(delimiter=LINE_SEPARATOR, quote_char=False, escape_char=False)
    wanted = csv.ConvertOptions(
        column_types=_COLUMNS, null_values=[""], strings_can_be_null=True, check_utf8=False
    )
    reading = csv.ReadOptions(column_names=_COLUMNS.names, use_threads=False)
    try:
        found = csv.read_csv(pa.py_buffer(lines.text.encode()), reading, options, wanted)
    except pa.ArrowInvalid:
        found = None
    if found is None or found.num_rows != lines.files:
        texts = [[value or None for value in column] for column in zip(*_split(lines), strict=True)]
        both = zip(_COLUMNS, texts, strict=True)
        return {f.name: pa.array(t, _TEXT).cast(f.type) for f, t in both}
    return {name: found.column(name).combine_chunks() for name in _COLUMNS.names}


def _split(lines: Lines) -> list[list[str]]:
    """Return the values of each line, where paths may contain line ends and separators.

    Only paths can contain them, so a line ends where enough values follow.
    """
    values = len(_COLUMNS)
    out, begun = [], ""
    for piece in lines.text.split("\n"):
        begun += piece
        found = begun.rsplit(LINE_SEPARATOR, values - 1)
        if len(found) == values and not any("\n" in value for value in found[1:]):
            out.append(found)
            begun = ""
        else:
            begun += "\n"
    if begun or len(out) != lines.files:
        what = f"The log tells of {lines.files} files in {len(out)} lines."
        raise CorruptTable(what, hint="Look for paths with line ends and separators in them.")
    return out


def _addresses(paths: pa.Array, root: str, *, as_spark: bool) -> pa.Array:
    # All paths are below the table and have no character that a URL escapes.
    if pc.all(pc.match_substring_regex(paths, _PLAIN)).as_py():
        return pc.binary_join_element_wise(address("", root, as_spark=as_spark), paths, "")
    return pa.array([address(p, root, as_spark=as_spark) for p in paths.to_pylist()], _TEXT)


def _written(paths: pa.Array, extras: pa.Array) -> pa.Array:
    plain = pc.all(pc.match_substring_regex(paths, _PLAIN)).as_py()
    if plain and extras.null_count == len(extras):
        return paths
    both = zip(paths.to_pylist(), extras.to_pylist(), strict=True)
    return pa.array([log_path(p, None if e is None else orjson.loads(e)) for p, e in both], _TEXT)


@lru_cache(maxsize=4096)
def _partition(text: str | None, schema: Schema) -> tuple[tuple[str, str | None], ...]:
    if text is None:
        return ()
    values = {int(i): from_json(v) for i, v in orjson.loads(text).items()}
    current = schema.current_values(values)
    known = ((schema.by_id.get(i), v) for i, v in sorted(current.items()))
    return tuple((physical_name(f), partition_text(f, v)) for f, v in known if f is not None)


def _maps(partitions: pa.Array, schema: Schema) -> pa.Array:
    if partitions.null_count == len(partitions):
        nothing = pa.array([], _TEXT)
        nowhere = pa.repeat(pa.scalar(0, pa.int32()), len(partitions) + 1)
        return pa.MapArray.from_arrays(nowhere, nothing, nothing)
    rows = [_partition(text, schema) for text in partitions.to_pylist()]
    offsets = list(accumulate(map(len, rows), initial=0))
    keys = pa.array([k for row in rows for k, _ in row], _TEXT)
    items = pa.array([v for row in rows for _, v in row], _TEXT)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items)


def _each(texts: pa.Array, kind: pa.DataType, made: Callable[[Any], Any]) -> pa.Array:
    """Return an array with `made` applied to each parsed JSON text; most or all texts are null."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind)
    return pa.array([None if t is None else made(orjson.loads(t)) for t in texts.to_pylist()], kind)


def _extra(name: str, extra: Mapping[str, Any]) -> Any:
    value = extra.get(name)
    return list(value.items()) if isinstance(value, Mapping) else value


def stats_texts(texts: pa.Array, rows: pa.Array, has_vector: pa.Array, schema: Schema) -> pa.Array:
    """Return the `stats` of Delta for files, from the texts of `FileStats.to_json` if not null."""
    names = unconverted_names(schema)
    if names is None:
        return _one_by_one(texts, rows, has_vector, schema)
    done = _renamed(texts, rows, names)
    # Files that need more than new keys: no rows, missing bounds, dropped columns, vectors.
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
