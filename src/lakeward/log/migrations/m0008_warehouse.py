"""Mark stores that record their warehouse, in a row of `lakeward_store`.

Opening the lake writes that row; this migration changes no table. Its number keeps older versions
of Lakeward out: they would not compare the warehouse with the record, and could write a table's
files to another place.
"""

from __future__ import annotations

STATEMENTS: tuple[str, ...] = ()
