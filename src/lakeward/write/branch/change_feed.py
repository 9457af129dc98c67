"""The change feed of several statements that become one commit: what they came to, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from lakeward.errors import UnsupportedFeature
from lakeward.formats.delta.changes import Difference, difference
from lakeward.formats.delta.history import read_history
from lakeward.formats.delta.net import Net, moved_all
from lakeward.formats.delta.publication import commit_path
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile
from lakeward.storage.base import Storage

Differ: TypeAlias = Callable[[Difference], None]
"""Writes the rows by which two small tables differ to a third one: an engine's part."""


def told(
    storage: Storage,
    head: Head,
    definition: Definition,
    found: Net,
    directory: str,
    differ: Differ | None,
) -> tuple[DataFile, ...]:
    """The difference of rows between a base and its branch, as change files of one commit.

    Args:
        storage: Where they are.
        head: The table.
        definition: After the commit.
        found: What the branch came to.
        directory: Of the branch, below the table's location.
        differ: The engine that finds the rows out and writes them.

    Raises:
        UnsupportedFeature: There is no engine for it, or it cannot.
    """
    if not found.added and not found.removed:
        return ()
    name = str(head.name)
    if differ is None:
        what = f"Several statements changed table {name}, which has a change feed."
        hint = "Commit each by itself, or give the engine that tells their difference."
        raise UnsupportedFeature(what, hint=hint, table=name)
    task, tables = difference(
        head,
        definition,
        found.removed,
        found.added,
        root=storage.uri(head.location),
        place=f"{head.location}/{directory}",
    )
    for place, data in tables:
        storage.put(commit_path(place, 0), data)
    differ(
        replace(
            task,
            before=storage.uri(task.before),
            after=storage.uri(task.after),
            target=storage.uri(task.target),
        )
    )
    written = read_history(storage, task.target)
    inside = task.target.removeprefix(f"{head.location}/")
    live = [f.file for f in written.files if f.added > 0]
    return moved_all([_change_file(f) for f in live], inside)


def _change_file(file: DataFile) -> DataFile:
    return DataFile(file.path, file.size, None, 0, file.partition)
