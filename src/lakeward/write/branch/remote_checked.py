"""Checks what a REST client claims of the data files that its commit adds."""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.context import LakeContext
from lakeward.engines.arrow.claims import Claims
from lakeward.engines.arrow.footers import Footer, look_at_footers
from lakeward.log import files
from lakeward.model.commit import Head
from lakeward.model.file import DataFile, is_full
from lakeward.model.names import TableName


def check_claims(
    context: LakeContext, name: TableName, location: str, new: Sequence[DataFile]
) -> None:
    """Read the footers of files that a commit adds; check what its manifests claim of them.

    Raises:
        InvalidInput: A file is not what its manifest claims.
        FileMissing, CorruptTable: A file is missing, or not Parquet.
    """
    filesystem, root = context.storage.arrow_filesystem(foreign=True)
    base = location if is_full(location) else f"{root}/{location}"
    paths = [f.path if is_full(f.path) else f"{base}/{f.path}" for f in new]
    claims = Claims(str(name))

    def look(number: int, footer: Footer) -> None:
        claims.check(new[number], footer)

    look_at_footers(filesystem, paths, look)


def unknown(context: LakeContext, head: Head, found: Sequence[DataFile]) -> list[DataFile]:
    """Return files without those of which the log has the same claims, of any version.

    A commit lists such a file again if it deletes rows of it in place, or goes back to a snapshot.
    """
    with context.database.read() as session:
        return [
            file
            for file in found
            if not any(
                _is_same(file, known.file)
                for known in files.ever_at_path(session, head.table_id, file.path)
            )
        ]


def _is_same(file: DataFile, known: DataFile) -> bool:
    if (file.size, file.rows, file.partition) != (known.size, known.rows, known.partition):
        return False
    if file.stats is None or known.stats is None:
        return file.stats is None
    claimed, logged = file.stats, known.stats
    return (claimed.minimum, claimed.maximum, claimed.nulls) == (
        logged.minimum,
        logged.maximum,
        logged.nulls,
    )
