r"""Rows for programs, written page by page: tab-separated lines, CSV, or one JSON object.

Tab-separated lines are what PostgreSQL's COPY calls text: a row to a line and a tab between values;
a tab, a line break or a backslash inside a value is `\t`, `\n`, `\r` or `\\`, and null is `\N`. CSV
is that of RFC 4180: text with a comma, a quote or a line break is quoted, null is an empty field,
and empty text is `""`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.model.records import to_json

if TYPE_CHECKING:
    from lakeward.lake.records import Page

_TEXT: Final = pa.large_string()
_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def write_lines(pages: Iterable[Page]) -> None:
    """Write a header and tab-separated rows."""
    _write(pages, "\t", "\\N", _escaped)


def write_csv(pages: Iterable[Page]) -> None:
    """Write a header and rows as CSV."""
    _write(pages, ",", "", _quoted)


def write_json(pages: Iterator[Page], warnings: Sequence[str]) -> None:
    """Write one object: facts of the first page, all `rows`, and whether more exist (`more`)."""
    page = next(pages)
    facts = {k: v for k, v in _facts(page).items() if k != "more"}
    sys.stdout.write(orjson.dumps(facts).decode()[:-1] + ',"rows":[')
    separator = ""
    while True:
        text = ",".join(orjson.dumps(to_json(row)).decode() for row in page.rows)
        if text:
            sys.stdout.write(separator + text)
            separator = ","
        following = next(pages, None)
        if following is None:
            break
        page = following
    last = {"more": page.more, **({"warnings": list(warnings)} if warnings else {})}
    sys.stdout.write("]," + orjson.dumps(last).decode()[1:] + "\n")
    sys.stdout.flush()


def _facts(page: Page) -> dict[str, Any]:
    names = ("table", "version", "timestamp", "schema", "offset")
    return {name: to_json(getattr(page, name)) for name in names if hasattr(page, name)}


def _write(
    pages: Iterable[Page], separator: str, null: str, safe: Callable[[pa.Array], pa.Array]
) -> None:
    for number, page in enumerate(pages):
        if number == 0:
            names = safe(pa.array(page.data.column_names, _TEXT)).to_pylist()
            sys.stdout.write(separator.join(names) + "\n")
        texts = [safe(text) for text in _texts(page)]
        joined = pc.binary_join_element_wise(
            *texts, pa.scalar(separator, _TEXT), null_handling="replace", null_replacement=null
        )
        if len(joined):
            sys.stdout.write("\n".join(joined.to_pylist()) + "\n")
        # A reader such as `head` shall see the rows, and close the pipe, before more are read.
        sys.stdout.flush()


def _texts(page: Page) -> Iterator[pa.Array]:
    """Yield the values of each column as text; nulls stay null."""
    for number, column in enumerate(page.data.columns):
        kind, types = column.type, pa.types
        if types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            text = column
        elif types.is_floating(kind):
            text = _decimal_point(column.cast(pa.string()))
        elif types.is_timestamp(kind):
            text = pc.replace_substring(column.cast(pa.string()), " ", "T")
        elif types.is_nested(kind) or types.is_binary(kind) or types.is_fixed_size_binary(kind):
            text = pa.array(map(_text, page.columns()[number]), _TEXT)
        else:
            text = column.cast(pa.string())
        yield _one(text.cast(_TEXT))


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _decimal_point(texts: pa.Array) -> pa.Array:
    """Return floats as text with a decimal point even if they are whole: `20.0`."""
    whole = pc.match_substring_regex(texts, r"^-?\d+$")
    return pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)


def _text(value: Any) -> str | None:
    """Return a value as text: bytes as hexadecimal digits, nested values as JSON; None for None."""
    if value is None or isinstance(value, str):
        return value
    return value.hex() if isinstance(value, bytes) else orjson.dumps(to_json(value)).decode()


def _escaped(texts: pa.Array) -> pa.Array:
    for character, spelled in _ESCAPES:
        texts = pc.replace_substring(texts, character, spelled)
    return texts


def _quoted(texts: pa.Array) -> pa.Array:
    needed = pc.match_substring_regex(texts, r'[",\r\n]|^$')
    doubled = pc.replace_substring(texts, '"', '""')
    quote, nothing = pa.scalar('"', _TEXT), pa.scalar("", _TEXT)
    return pc.if_else(needed, pc.binary_join_element_wise(quote, doubled, quote, nothing), texts)
