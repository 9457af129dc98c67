"""Plans a table's compaction or clustering."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.context import LakeContext
from lakeward.engines.arrow.partition import partition_directory
from lakeward.errors import InvalidInput
from lakeward.formats.properties import size_bytes
from lakeward.log import commits
from lakeward.log.database import Session
from lakeward.maintain.optimize.asked import Asked, check_on_spark
from lakeward.maintain.optimize.choice import Group, by_partition, to_cluster, to_pack
from lakeward.model import arguments
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.expressions.where import parse
from lakeward.model.file import LoggedFile
from lakeward.model.layout import Layout, LayoutKind, layout_from
from lakeward.model.maintenance import Plan, Unit
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.plan.change import Change
from lakeward.write.stage.checks import check_writable
from lakeward.write.stage.stager import options_of

KIND: Final = "optimize"
OPERATION: Final = "OPTIMIZE"
_UNIT_BYTES: Final = 2**30
_UNIT_GROUPS: Final = 64
_BYTES_PER_SECOND: Final = 10 * 2**20
"""How many bytes of files are rewritten in a second in the worst case."""
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Work:
    """The files that one unit rewrites."""

    asked: Asked
    groups: tuple[Group, ...]


def target_size(head: Head, definition: Definition) -> int:
    """Return the target size of a table's files on disk, in bytes, from its policies."""
    return options_of(head, definition).target_file_size


def checked_target(head: Head, definition: Definition, given: object) -> int:
    """Return the target size of files on disk: the given one, or the policy's."""
    if given is None:
        return target_size(head, definition)
    if isinstance(given, str):
        return size_bytes(given, "target_size")
    return arguments.whole(given, "target_size", least=1)


def plan_optimize(
    context: LakeContext, snapshot: TableSnapshot, asked: Asked, *, on_spark: bool = False
) -> Plan:
    """Plan the groups of files worth rewriting; raise if the engine cannot rewrite them."""
    head, definition = snapshot.log_head, snapshot.definition
    name = str(head.name)
    if on_spark:
        check_on_spark(asked)
    else:
        check_writable(Change(head, definition))
    scope = None if asked.where is None else parse(asked.where, definition.schema)
    files, notes = _current_spec(snapshot.plan(scope), definition)
    groups = list(_groups(files, asked, _clustered_by(context, head, asked.layout)))
    together = [groups] if on_spark and groups else _units(groups)
    units = tuple(_unit(name, definition, asked, some) for some in together)
    facts = {"layout": str(asked.layout), "target_size": asked.target, "table_files": len(files)}
    return Plan(KIND, name, units, notes, facts)


def check_budget(plan: Plan, seconds: float | None) -> None:
    """Raise `InvalidInput` if a budget is too short for even the smallest unit."""
    if seconds is None or not plan.units:
        return
    smallest = min(plan.units, key=lambda unit: unit.reads)
    needed = smallest.reads / _BYTES_PER_SECOND
    if needed > seconds + 1:
        what = (
            f"The budget of {seconds:.0f} s is shorter than the smallest unit of {plan.kind}, which"
            f" reads {smallest.reads / 2**20:.0f} MB and takes about {needed:.0f} s."
        )
        hint = "Give it more time, or choose a part of the table with where=."
        raise InvalidInput(what, hint=hint, parameter="budget", table=plan.table)


def _current_spec(
    files: Sequence[LoggedFile], definition: Definition
) -> tuple[list[LoggedFile], tuple[str, ...]]:
    """Return the files with the table's present partitioning, and notes about the others."""
    wanted = set(definition.partition_by)
    kept = [f for f in files if set(f.partition) == wanted]
    left = len(files) - len(kept)
    if not left:
        return kept, ()
    return kept, (f"{left} files are partitioned as the table was before, and are left alone.",)


def _groups(
    files: Sequence[LoggedFile], asked: Asked, is_clustered: Callable[[LoggedFile], bool]
) -> Iterator[Group]:
    for some in by_partition(files):
        if asked.layout.kind is LayoutKind.PACK:
            yield from to_pack(some, asked.target, purge=asked.purge)
        else:
            yield from to_cluster(some, is_clustered, purge=asked.purge)


def _clustered_by(context: LakeContext, head: Head, layout: Layout) -> Callable[[LoggedFile], bool]:
    """Return a function that tells whether a file was written by a commit with this layout."""
    known: dict[int, bool] = {}

    def is_clustered(file: LoggedFile) -> bool:
        if file.added not in known:
            with context.database.read() as session:
                found = commits.one(session, head.table_id, file.added)
            known[file.added] = found is not None and layout_from(found.info.parameters) == layout
        return known[file.added]

    return is_clustered


def last_layout(session: Session, head: Head) -> Layout:
    """Return the layout by which the table was last clustered; `pack` if it never was."""
    for found in commits.each_of(session, head.table_id, OPERATION):
        layout = layout_from(found.info.parameters)
        if layout.columns:
            return layout
    return Layout()


def _units(groups: Sequence[Group]) -> Iterator[list[Group]]:
    """Yield lists of groups that are committed together: many small groups, or one large one."""
    some: list[Group] = []
    size = 0
    for group in groups:
        if some and (size + group.bytes > _UNIT_BYTES or len(some) >= _UNIT_GROUPS):
            yield some
            some, size = [], 0
        some.append(group)
        size += group.bytes
    if some:
        yield some


def _unit(table: str, definition: Definition, asked: Asked, groups: Sequence[Group]) -> Unit:
    files = sum(len(g.files) for g in groups)
    size = sum(g.bytes for g in groups)
    after = sum(max(1, -(-g.bytes // asked.target)) for g in groups)
    places = [partition_directory(g.partition, definition).rstrip("/") for g in groups]
    named = list(dict.fromkeys(p for p in places if p))
    where = f" in {', '.join(named[:_NAMED])}" if named else ""
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return Unit(
        table=table,
        what=f"{asked.layout} of {files} files{where}{more}",
        why="; ".join(dict.fromkeys(g.why for g in groups[:_NAMED])),
        gain=f"{files} files become about {after}" if after != files else "rows lie together",
        reads=size,
        writes=size,
        files=files,
        work=Work(asked, tuple(groups)),
    )
