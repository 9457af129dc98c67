"""Reads the metadata of an Arrow IPC stream, to know how large its rows can be when decoded.

Metadata are flatbuffers, in which many places may refer to one: Arrow makes a copy for each place.
So columns, names and values are counted here before Arrow reads the schema.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final

import pyarrow as pa

from lakeward.engines.arrow.too_large import too_many_columns

_MOST: Final = 16 << 20
"""The most bytes of a schema in memory."""
_FIELD_BYTES: Final = 500
"""About what a column takes in memory, without its name and metadata."""
_PLAIN: Final = frozenset({*range(2, 11), 12, 13, 15, 16, *range(17, 22)})
"""Types of the IPC format whose values are all written out.

Others are null (1), union (14), run-end encoded (22) and the views (23 to 26).
"""
_STRUCT, _FIXED_BINARY, _FIXED_LIST = 13, 15, 16
_SCHEMA, _RECORD_BATCH = 1, 3


def is_plain(data: pa.Buffer) -> bool:
    """Return whether the rows of a stream take no more memory than the stream.

    That is so without compression, without dictionaries, views or run-end encoding, by which a
    value is written once for many rows, and without types whose values have no bytes.

    Raises:
        TooLarge: The schema is very large in memory.
        ArrowException: It is no stream.
    """
    try:
        messages = iter(pa.ipc.MessageReader.open_stream(pa.BufferReader(data)))
        # A stream has one schema. To look through thousands of them would take hours.
        if not all(_is_plain(message, _SCHEMA) for message in islice(messages, 1)):
            return False
        return all(_is_plain(message, _RECORD_BATCH) for message in messages)
    except struct.error as error:
        message = "A message has an offset that is outside of it."
        raise pa.ArrowInvalid(message) from error


def _is_plain(message: pa.Message, wanted: int) -> bool:
    data = memoryview(message.metadata)
    found = _Table(data, struct.unpack_from("<I", data, 0)[0])
    kind, header = found.byte(1), found.table(2)
    if header is None or kind != wanted or found.has(4):
        # The first versions of the format had compression in the metadata of the message.
        return False
    if kind == _RECORD_BATCH:
        return not header.has(3) and not header.has(4)
    return _has_plain_columns(header)


def _has_plain_columns(schema: _Table) -> bool:
    size, is_plain = schema.metadata_size(2), bool(schema.count(1)) and not schema.short(0)
    fields = [schema.tables(1)]
    while fields:
        for field in fields.pop():
            size += _FIELD_BYTES + field.text_size(0) + field.metadata_size(6)
            if size > _MOST:
                raise too_many_columns(_MOST)
            fields.append(field.tables(5))
            is_plain = is_plain and _is_plain_field(field)
    return is_plain


def _is_plain_field(field: _Table) -> bool:
    kind, details = field.byte(2), field.table(3)
    if kind not in _PLAIN or details is None or field.has(4):
        return False
    if kind == _STRUCT:
        return field.count(5) > 0
    return kind not in (_FIXED_BINARY, _FIXED_LIST) or details.number(0) > 0


class _Table:
    """A table of a flatbuffer; its fields are found by their number."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at
        self._offsets = at - struct.unpack_from("<i", data, at)[0]
        self._size = struct.unpack_from("<H", data, max(0, self._offsets))[0]

    def has(self, number: int) -> bool:
        """Whether the field is there."""
        return self._place(number) > 0

    def byte(self, number: int) -> int:
        """Return a field of one byte; 0 if it is not there."""
        at = self._place(number)
        return self._read("<B", at) if at else 0

    def short(self, number: int) -> int:
        """Return a field of two bytes; 0 if it is not there."""
        at = self._place(number)
        return self._read("<h", at) if at else 0

    def number(self, number: int) -> int:
        """Return a field of four bytes; 0 if it is not there."""
        at = self._place(number)
        return self._read("<i", at) if at else 0

    def table(self, number: int) -> _Table | None:
        """Return a field that is a table; None if it is not there."""
        at = self._target(number)
        return _Table(self._data, at) if at else None

    def count(self, number: int) -> int:
        """Return the length of a field that is a list or a text; 0 if it is not there."""
        at = self._target(number)
        return self._read("<I", at) if at else 0

    text_size = count

    def tables(self, number: int) -> Iterator[_Table]:
        """Yield the tables of a field that is a list of them."""
        first = self._target(number) + 4
        for at in range(first, first + 4 * self.count(number), 4):
            yield _Table(self._data, at + self._read("<I", at))

    def metadata_size(self, number: int) -> int:
        """Return the bytes of keys and values of a field with metadata, at most a little more."""
        size = 0
        for pair in self.tables(number):
            size += _FIELD_BYTES + pair.text_size(0) + pair.text_size(1)
            if size > _MOST:
                break
        return size

    def _place(self, number: int) -> int:
        """Return the position of a field; 0 if it is not there."""
        at = 4 + 2 * number
        if at + 2 > self._size:
            return 0
        offset = self._read("<H", self._offsets + at)
        return self._at + offset if offset else 0

    def _target(self, number: int) -> int:
        """Return the position that a field refers to; 0 if the field is not there."""
        at = self._place(number)
        return at + self._read("<I", at) if at else 0

    def _read(self, form: str, at: int) -> int:
        if at < 0:
            message = f"{at} is no position."
            raise struct.error(message)
        found: int = struct.unpack_from(form, self._data, at)[0]
        return found
