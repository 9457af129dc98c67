"""Compares what other writers claim of their data files with the footers of the files.

Counts of rows are answered from the claims, and files are skipped by them, so that rows are lost if
they are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.engines.arrow.footers import Footer
from lakeward.errors import InvalidInput
from lakeward.model.file import DataFile


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a commit of files to the table of this name."""

    table: str

    def check(self, file: DataFile, footer: Footer) -> None:
        """Raise `InvalidInput` unless the footer of a file confirms what is claimed of it."""
        rows = footer.metadata.num_rows
        if file.size != footer.size:
            raise self._wrong(file, f"has {file.size} bytes", f"it has {footer.size}")
        if file.rows != rows:
            raise self._wrong(file, f"has {file.rows} rows", f"its footer says {rows}")

    def _wrong(self, file: DataFile, claim: str, fact: str) -> InvalidInput:
        what = f"The commit to table {self.table} claims that file {file.path} {claim}; {fact}."
        hint = "Readers would lose rows. Write the manifest from the footers of the files."
        return InvalidInput(what, hint=hint, table=self.table, path=file.path)
