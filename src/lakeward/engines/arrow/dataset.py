"""A table as an Arrow dataset, for engines that read datasets: DataFusion, DuckDB, Polars, Dask.

Files are planned when the filter is known, so that the log skips files by it. Deleted rows, renamed
columns and columns that files lack are resolved as in any read of the table. The dataset is an
instance of `pyarrow.dataset.Dataset`, has its reading methods, and is immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakeward.engines.arrow.expression import to_arrow
from lakeward.engines.arrow.first_rows import first_rows
from lakeward.engines.arrow.one_nan import has_floats, with_one_nan
from lakeward.engines.arrow.ordered import OrderedScanner, keys_of
from lakeward.engines.arrow.scanner import StreamScanner
from lakeward.engines.arrow.substrait import understood
from lakeward.errors import UnsupportedFeature
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile
from lakeward.model.schema import Schema
from lakeward.model.sorting import SortKey

Plan: TypeAlias = Callable[[Expression | None], list[LoggedFile]]
"""Returns the files that may have rows for which a condition is true."""
Read: TypeAlias = Callable[[Sequence[LoggedFile], Sequence[str]], pa.RecordBatchReader]
"""Returns the rows of files, with some columns."""
_PARTS: Final = 4
"""The number of parts in which files are read; an engine may read each in its own thread."""


class LakeDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """The rows of a table at one version."""

    def __init__(
        self,
        schema: Schema,
        plan: Plan,
        read: Read,
        *,
        label: str,
        nan_is_greatest: bool = False,
        is_whole: bool = True,
        arrow_schema: pa.Schema | None = None,
    ) -> None:
        """Prepare to read.

        Args:
            schema: The columns.
            plan: Selects the files.
            read: Reads them.
            label: The name of the table, for messages.
            nan_is_greatest: Order NaN above all numbers in filters, as SQL does, and return the
                same NaN everywhere.
            is_whole: Whether `read` returns all rows of files that are not deleted.
            arrow_schema: The columns in Arrow, if their metadata differ from those of `schema`.
        """
        self._order: tuple[SortKey, ...] = ()
        self._is_whole = is_whole
        self._lake_schema = schema
        self._arrow_schema = schema.to_arrow() if arrow_schema is None else arrow_schema
        self._plan = plan
        self._read = read
        self._label = label
        self._kept: pc.Expression | None = None
        self._nan_is_greatest = nan_is_greatest

    def __repr__(self) -> str:
        return f"LakeDataset({self._label!r})"

    @property
    def schema(self) -> pa.Schema:
        """Schema of the table."""
        return self._arrow_schema

    @property
    def partition_expression(self) -> pc.Expression:
        """Expression that is true for all rows."""
        return pc.scalar(True)

    def filter(self, expression: pc.Expression) -> LakeDataset:
        """Return the dataset restricted to the rows for which an expression is true."""
        return self._but(_kept=self._both(expression))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Any]:  # noqa: A002
        """Yield parts that can be read separately, without files that the filter rules out."""
        files = self._files(self._both(filter))
        size = len(files) or 1 if self._order else -(-len(files) // _PARTS) or 1
        return iter(
            [_Part(self, files[at : at + size]) for at in range(0, len(files), size)]
            or [_Part(self, [])]
        )

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002
        **options: Any,
    ) -> ds.Scanner | StreamScanner:
        """Return a scanner of the rows that match the filter, with some columns or expressions.

        Accepts other scan options for compatibility and ignores them.
        """
        del options
        found = self._stream(columns, filter)
        if self._nan_is_greatest:
            return found
        # Functions of Arrow such as `write_dataset` take only a scanner of its own.
        return ds.Scanner.from_batches(found.to_reader())

    def to_table(self, columns: Any = None, filter: Any = None, **options: Any) -> pa.Table:  # noqa: A002
        """Return the rows as an Arrow table."""
        del options
        return self._stream(columns, filter).to_table()

    def to_batches(
        self,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows as record batches."""
        del options
        return self._stream(columns, filter).to_batches()

    def head(self, num_rows: int, columns: Any = None, filter: Any = None, **options: Any) -> Any:  # noqa: A002
        """Return the first `num_rows` rows."""
        del options
        return self._stream(columns, filter).head(num_rows)

    def count_rows(self, filter: Any = None, **options: Any) -> int:  # noqa: A002
        """Return the number of rows."""
        del options
        unordered = self._but(_order=())
        return unordered._stream(self._arrow_schema.names[:1], filter).count_rows()

    def take(self, indices: Any, columns: Any = None, filter: Any = None, **options: Any) -> Any:  # noqa: A002
        """Return the rows at the given positions."""
        del options
        return self._stream(columns, filter).take(indices)

    def sort_by(self, sorting: Any, **options: Any) -> ds.Dataset:
        """Return the rows in an order, as `pyarrow.Table.sort_by` has it; ties keep their order.

        Rows are read when they are asked for. `head` and `take` read only the files that can have
        the rows up to the last one that is asked for.
        """
        keys = keys_of(sorting, self._lake_schema, **options)
        if keys is None:  # such as parts of nested columns
            return ds.InMemoryDataset(self.to_table().sort_by(sorting, **options))
        return self._but(_order=(*keys, *self._order))

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Raise `UnsupportedFeature`: the table defines the columns."""
        del schema
        what = "A dataset of a lake's table has the columns of the table."
        raise UnsupportedFeature(what, hint="Cast the rows that you read.")

    def join(self, *args: Any, **kwargs: Any) -> ds.InMemoryDataset:
        """Return the rows joined with another dataset, in memory."""
        joined = ds.InMemoryDataset(self.to_table())
        return joined.join(*args, **kwargs)

    def scanner_of(
        self,
        files: Sequence[LoggedFile],
        columns: Sequence[str] | Mapping[str, pc.Expression] | None,
        filter: pc.Expression | None,  # noqa: A002
    ) -> StreamScanner:
        """Return a scanner of the rows of some files."""
        kept = self._condition(filter)
        used = {*self._needed(columns, kept), *(key.field.name for key in self._order)}
        names = [name for name in self._arrow_schema.names if name in used]
        schema = pa.schema([self._arrow_schema.field(name) for name in names])
        shown = list(self._arrow_schema.names) if columns is None else columns

        def read(some: Sequence[LoggedFile]) -> pa.RecordBatchReader:
            found = self._read(some, names)
            return with_one_nan(found) if self._nan_is_greatest else found

        def first(limit: int | None) -> pa.Table:
            whole = self._is_whole
            return first_rows(files, self._order, limit, read, kept, is_counted=whole)

        if self._order:
            return OrderedScanner(schema, first, shown)
        return StreamScanner(schema, lambda: read(files), shown, kept)

    def _stream(self, columns: Any, filter: pc.Expression | None) -> StreamScanner:  # noqa: A002
        return self.scanner_of(self._files(self._both(filter)), columns, filter)

    def _but(self, **changed: Any) -> LakeDataset:
        """Return a dataset that differs from this one in some attributes."""
        made = LakeDataset.__new__(LakeDataset)
        made.__dict__.update(self.__dict__, **changed)
        return made

    def _condition(self, filter: pc.Expression | None) -> pc.Expression | None:  # noqa: A002
        """Return the condition by which rows are filtered."""
        kept = self._both(filter)
        return self._as_in_sql(kept) if kept is not None and self._nan_is_greatest else kept

    def _as_in_sql(self, kept: pc.Expression) -> pc.Expression:
        """Return a filter that orders NaN above all numbers, as SQL does; Arrow does not.

        Raises:
            UnsupportedFeature: The filter is about floats, and could not be parsed completely.
        """
        found = understood(kept, self._lake_schema, sql=True)
        if found.is_whole and found.condition is not None:
            return to_arrow(found.condition)
        names = self._arrow_schema.names if found.columns is None else found.columns
        if any(has_floats(self._arrow_schema.field(name).type) for name in names):
            what = f"{self._label}: a filter cannot be computed where values may be NaN: {kept}."
            hint = "Ask with the other engine, or write the condition in another way."
            raise UnsupportedFeature(what, hint=hint)
        return kept

    def _needed(self, columns: Any, kept: pc.Expression | None) -> list[str]:
        """Return the columns to read: the requested ones and those of the filter."""
        every = list(self._arrow_schema.names)
        if columns is None or isinstance(columns, Mapping):
            return every
        used = frozenset[str]() if kept is None else understood(kept, self._lake_schema).columns
        if used is None:
            return every
        found = [n for n in every if n in used or n in set(columns)]
        # Rows without columns cannot be counted, so read at least one column.
        return found or every[:1]

    def _files(self, kept: pc.Expression | None) -> list[LoggedFile]:
        if kept is None:
            return self._plan(None)
        return self._plan(understood(kept, self._lake_schema, sql=self._nan_is_greatest).condition)

    def _both(self, other: pc.Expression | None) -> pc.Expression | None:
        if isinstance(other, pa.Scalar):  # a condition that is the same for all rows
            other = pc.scalar(other)
        if other is None or self._kept is None:
            return self._kept if other is None else other
        return self._kept & other


class _Part:
    """A part of a dataset: some of its files."""

    def __init__(self, whole: LakeDataset, files: Sequence[LoggedFile]) -> None:
        self._whole = whole
        self._files = files

    @property
    def physical_schema(self) -> pa.Schema:
        return self._whole.schema

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002
        **options: Any,
    ) -> StreamScanner:
        del schema, options
        return self._whole.scanner_of(self._files, columns, filter)

    def to_table(self, schema: Any = None, columns: Any = None, filter: Any = None) -> pa.Table:  # noqa: A002
        return self.scanner(schema, columns, filter).to_table()

    def to_batches(
        self,
        schema: Any = None,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        **options: Any,
    ) -> Any:
        return self.scanner(schema, columns, filter, **options).to_batches()
