"""The store records its warehouse, in a row of `lakeward_store` that opening the lake writes.

No table changes. The number keeps older versions of Lakeward out: they would not compare the
warehouse with the record, and so could write a table's files into another place.
"""

from __future__ import annotations

STATEMENTS: tuple[str, ...] = ()
