"""A random walk through the whole product: rows, columns, layout, history, vacuum and copies.

Tables of every kind go through all operations that change or move them, in any order. After each
step every table reads as a model in plain Python says; so do older versions that can still be read,
tags, and what other readers see. In the end the doctor finds nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import VersionNotFound
from tests.interop.readers import DeltaRs
from tests.support.applying import applied, bag
from tests.support.iceberg import stranger_arrow
from tests.support.target import LakeTarget

Row: TypeAlias = dict[int, Any]

KINDS: Final[dict[str, dict[str, Any]]] = {
    "w.plain": {},
    "w.marked": {
        "properties": {"delta.enableChangeDataFeed": "true"},
        "policy": {"merge_on_read": True},
    },
    "w.parted": {"partition_by": ["p"], "properties": {"delta.columnMapping.mode": "name"}},
    "w.ice": {"format": "iceberg"},
    "w.ice3": {
        "format": "iceberg",
        "partition_by": ["p"],
        "properties": {"format-version": "3"},
    },
}
_ID, _P, _A = 0, 1, 2
_FREE: Final = ("a", "b", "c", "d")
OPERATIONS: Final = ("append", "append", "update", "delete", "merge", "replace", "sql")
LAYOUTS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"zorder": ["id"]},
    {"sort": ["id"]},
    {"purge": True},
)
_FULL: Final = [pytest.mark.full, pytest.mark.timeout(3600)]


@dataclass(frozen=True)
class State:
    """A version: names of columns by their numbers, and rows by the numbers of their columns."""

    names: Mapping[int, str] = field(default_factory=lambda: {_ID: "id", _P: "p", _A: "a"})
    rows: tuple[Row, ...] = ()

    def seen(self) -> Counter[tuple[Any, ...]]:
        """The rows as a reader sees them, columns by name."""
        order = sorted(self.names, key=lambda number: self.names[number])
        return Counter(tuple(row.get(n) for n in order) for row in self.rows)

    def with_rows(self, rows: Sequence[Row]) -> State:
        return State(self.names, tuple(rows))


def seen(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """The rows that were read, columns by name."""
    columns = [table.column(name).to_pylist() for name in sorted(table.column_names)]
    return Counter(zip(*columns, strict=True))


class Walk:
    """Random steps on a lake, and what it must hold after each."""

    def __init__(self, target: LakeTarget, place: Path, seed: int) -> None:
        self.target, self.place = target, place
        self.chance = random.Random(seed)
        self.lake = target.open()
        self.past: dict[str, list[State]] = {}
        self.tags: dict[str, dict[str, int]] = {}
        self.done: list[str] = []
        self.next = 0
        self.next_column = _A + 1
        self.floor: dict[str, int] = {}
        for name, how in KINDS.items():
            self.lake.create(name, {"id": "int64", "p": "string", "a": "string"}, **how)
            self.past[name] = [State()]

    # What may happen.

    def step(self) -> None:
        """Do one thing, note it, and look at everything."""
        ways: list[tuple[int, Callable[[], str | None]]] = [
            (14, self.write),
            (4, self.alter),
            (3, self.optimize),
            (2, self.vacuum),
            (2, self.expire),
            (1, self.checkpoint),
            (2, self.tag),
            (1, self.untag),
            (2, self.restore),
            (2, self.restore_all),
            (2, self.undo),
            (1, self.clone),
            (1, self.drop_and_undrop),
            (1, self.publish_branch),
            (1, self.reopen),
            (1, self.export),
        ]
        weights = [weight for weight, _ in ways]
        (chosen,) = self.chance.choices([way for _, way in ways], weights)
        said = chosen()
        self.done.append(f"{chosen.__name__}: {said}")
        self.look()

    def write(self) -> str:
        names = self.chance.sample(sorted(self.past), self.chance.choice([1, 1, 2, 3]))
        said, after = [], {}
        with self.lake.transaction() as tx:
            for name in names:
                state = self.now(name)
                for _ in range(self.chance.choice([1, 1, 2])):
                    state, what = self.operation(tx, name, state)
                    said.append(f"{name} {what}")
                assert seen(tx.read(name)) == state.seen(), (self.done, said)
                after[name] = state
        for name in tx.commit().versions:
            self.past[name].append(after[name])
        return "; ".join(said)

    def operation(self, tx: lw.Transaction, name: str, state: State) -> tuple[State, str]:
        rows, low = list(state.rows), self.chance.randrange(0, max(self.next, 1))
        high = low + self.chance.randrange(1, 12)

        def hit(row: Row) -> bool:
            return low <= row[_ID] < high

        where = f"id >= {low} AND id < {high}"
        match self.chance.choice(
            ["append", "append", "update", "delete", "merge", "replace", "sql"]
        ):
            case "append":
                new = self.rows(state, self.chance.randrange(1, 9))
                tx.append(name, self.arrow(state, new))
                return state.with_rows(rows + new), f"append {len(new)}"
            case "update":
                number = self.column(state)
                if number is not None:
                    tx.update(name, set={state.names[number]: "'u'"}, where=where)
                    rows = [{**r, number: "u"} if hit(r) else r for r in rows]
                return state.with_rows(rows), f"update {where}"
            case "delete":
                tx.delete(name, where=where)
                return state.with_rows([r for r in rows if not hit(r)]), f"delete {where}"
            case "merge":
                new = self.rows(state, 3)
                known = self.chance.sample(rows, min(2, len(rows)))
                new += [{**self.row(state), _ID: r[_ID]} for r in known]
                tx.merge(name, self.arrow(state, new), on="id")
                keys = {r[_ID] for r in new}
                kept = [r for r in rows if r[_ID] not in keys]
                return state.with_rows(kept + new), f"merge {sorted(keys)}"
            case "replace":
                new = [{**self.row(state), _ID: low}]
                tx.overwrite(name, self.arrow(state, new), where=where)
                return state.with_rows([r for r in rows if not hit(r)] + new), f"replace {where}"
            case _:
                tx.sql(f"DELETE FROM {name} WHERE {where}")
                tx.sql(f"INSERT INTO {name} (id, p) VALUES ({self.next}, 'x')")
                new = [{_ID: self.next, _P: "x"}]
                self.next += 1
                return state.with_rows([r for r in rows if not hit(r)] + new), f"sql {where}"

    def alter(self) -> str:
        name = self.any_table()
        state = self.now(name)
        names, rows = dict(state.names), [dict(r) for r in state.rows]
        free = [n for n in _FREE if n not in names.values()]
        number = self.column(state)
        change = self.lake.table(name).alter()
        match self.chance.choice(["add", "rename", "drop"]):
            case "rename" if number is not None and free:
                said = f"rename {names[number]} to {free[0]}"
                change.rename_column(names[number], free[0]).commit()
                names[number] = free[0]
            case "drop" if number is not None:
                said = f"drop {names[number]}"
                change.drop_column(names[number]).commit()
                del names[number]
            case _ if free:
                said = f"add {free[-1]}"
                change.add_column(free[-1], "string").commit()
                names[self.next_column] = free[-1]
                self.next_column += 1
            case _:
                return "nothing"
        rows = [{n: v for n, v in r.items() if n in names} for r in rows]
        self.past[name].append(State(names, tuple(rows)))
        return f"{name} {said}"

    def optimize(self) -> str:
        name = self.any_table()
        how = self.chance.choice(LAYOUTS)
        self.lake.table(name).optimize(**how)
        self.catch_up(name)
        return f"{name} {how}"

    def vacuum(self) -> str:
        name = self.any_table()
        self.lake.table(name).vacuum(retention="0s", force=True)
        self.floor[name] = self.lake.table(name).version
        return name

    def vacuum_all(self) -> None:
        self.lake.vacuum(retention="0s", force=True)
        self.floor = {n: self.lake.table(n).version for n in self.past}

    def expire(self) -> str:
        name = self.any_table()
        self.lake.table(name).expire(retention="0s", force=True)
        return name

    def checkpoint(self) -> str:
        name = self.any_table()
        self.lake.table(name).checkpoint()
        return name

    def tag(self) -> str:
        label = f"t{len(self.done)}"
        self.lake.tag(label)
        self.tags[label] = {n: self.lake.table(n).version for n in self.past}
        return label

    def untag(self) -> str | None:
        if not self.tags:
            return None
        label = self.chance.choice(sorted(self.tags))
        self.lake.untag(label)
        del self.tags[label]
        return label

    def restore(self) -> str:
        name = self.any_table()
        version = self.chance.randrange(len(self.past[name]))
        before = self.lake.table(name).version
        try:
            self.lake.table(name).restore(version=version)
        except VersionNotFound as error:
            self.check_gone(error, {name: version})
            assert self.lake.table(name).version == before
            return f"{name} {version} is gone"
        if self.lake.table(name).version > before:
            self.past[name].append(self.past[name][version])
        return f"{name} {version}"

    def restore_all(self) -> str | None:
        if not self.tags:
            return None
        label = self.chance.choice(sorted(self.tags))
        cut = self.tags[label]
        before = {n: self.lake.table(n).version for n in cut}
        self.lake.restore(at=label, tables=sorted(cut))
        for name, version in cut.items():
            if self.lake.table(name).version > before[name]:
                self.past[name].append(self.past[name][version])
        return label

    def undo(self) -> str | None:
        """Take back the newest commit of a table where it is the newest of all its members."""
        name = self.any_table()
        newest = self.lake.table(name).history(limit=1)[0]
        record = self.lake.transaction_record(newest.transaction_id)
        members = dict(record.versions)
        if any(self.lake.table(n).version != v or v == 0 for n, v in members.items()):
            return None
        try:
            self.lake.undo(newest.transaction_id)
        except VersionNotFound as error:
            self.check_gone(error, {n: v - 1 for n, v in members.items()})
            return "the versions before are gone"
        for member, version in members.items():
            if self.lake.table(member).version > version:
                self.past[member].append(self.past[member][version - 1])
        return f"{newest.transaction_id[-6:]} of {sorted(members)}"

    def clone(self) -> str | None:
        if len(self.past) > len(KINDS) + 3:
            return None
        source, name = self.any_table(), f"w.clone{len(self.done)}"
        version = self.lake.table(source).version
        self.lake.clone(source, name)
        state = self.past[source][version]
        # An Iceberg table begins without a snapshot; its second version names the files.
        empty = [state.with_rows(())] * self.lake.table(name).version
        self.past[name] = [*empty, state]
        return f"{source} as {name}"

    def drop_and_undrop(self) -> str:
        name = self.any_table()
        version = self.lake.table(name).version
        self.lake.drop(name)
        if self.chance.random() < 0.5:
            # Within the grace period: all tables, with the retention of each.
            self.lake.vacuum()
        self.lake.undrop(name)
        assert self.lake.table(name).version >= version
        return name

    def publish_branch(self) -> str | None:
        """Rows that delta-rs adds on a branch."""
        from deltalake import write_deltalake

        name = "w.plain"
        state = self.now(name)
        table = self.lake.table(name)
        if "columnMapping" in str(table.definition.protocol):
            return None
        branch = self.lake.branch(f"b{len(self.done)}", tables=[name])
        new = self.rows(state, 2)
        write_deltalake(branch.table(name).location, self.arrow(state, new), mode="append")
        if self.chance.random() < 0.5:
            self.vacuum_all()
        branch.publish()
        self.past[name].append(state.with_rows([*state.rows, *new]))
        return name

    def reopen(self) -> str:
        self.lake.close()
        self.lake = self.target.open()
        return ""

    def export(self) -> str:
        name = self.any_table()
        place = self.place / f"export{len(self.done)}"
        self.lake.table(name).export(place)
        found = pa.concat_tables(
            [pq.read_table(f) for f in sorted(place.glob("*.parquet"))]
            or [self.lake.table(name).schema.to_arrow().empty_table()]
        )
        assert seen(found) == self.now(name).seen(), (name, self.done)
        return name

    # What must hold.

    def look(self) -> None:
        for name, past in self.past.items():
            table = self.lake.table(name)
            assert table.version == len(past) - 1, (name, self.done)
            assert seen(table.to_arrow()) == past[-1].seen(), (name, self.done)
            assert table.count() == len(past[-1].rows), (name, self.done)
            self.look_back(name)
        for label, cut in self.tags.items():
            name = self.chance.choice(sorted(cut))
            found = self.lake.table(name).at(tag=label).to_arrow()
            assert seen(found) == self.past[name][cut[name]].seen(), (name, label, self.done)
        name = self.any_table()
        self.ask_others(name)
        if self.chance.random() < 0.3:
            self.ask_engines(name)

    def look_back(self, name: str) -> None:
        """A version that is there reads as it was; one that is not is refused."""
        past = self.past[name]
        version = self.chance.randrange(len(past))
        table = self.lake.table(name)
        try:
            found = table.at(version=version).to_arrow()
        except VersionNotFound as error:
            self.check_gone(error, {name: version})
            return
        assert seen(found) == past[version].seen(), (name, version, self.done)
        later = self.chance.randrange(version, len(past))
        same = all(past[v].names == past[later].names for v in range(version, later))
        if same and later > version >= self.floor.get(name, 0):
            told = table.changes(since=version + 1, until=later).read_all()
            names = table.at(version=later).schema.names
            before = bag(table.at(version=version).to_arrow().to_pylist(), names)
            after = bag(table.at(version=later).to_arrow().to_pylist(), names)
            assert applied(before, told) == after, (name, version, later, self.done)

    def ask_others(self, name: str) -> None:
        """delta-rs or pyiceberg reads the newest version from the published files."""
        table = self.lake.table(name)
        if table.format == "iceberg":
            found = stranger_arrow(self.lake, name)
        else:
            found = DeltaRs().rows(table.location)
        assert seen(found) == self.now(name).seen(), (name, self.done)

    def ask_engines(self, name: str) -> None:
        state = self.now(name)
        rows = self.lake.sql(f"SELECT count(*) AS n, sum(id) AS s FROM {name}").to_arrow()
        wanted = [len(state.rows), sum(r[_ID] for r in state.rows) or None]
        assert [rows["n"][0].as_py(), rows["s"][0].as_py() or None] == wanted, (name, self.done)
        where = f"id >= {self.next // 2}"
        found = self.lake.table(name).to_arrow(where=where)
        kept = state.with_rows([r for r in state.rows if r[_ID] >= self.next // 2])
        assert seen(found) == kept.seen(), (name, self.done)

    # Helpers.

    def check_gone(self, error: VersionNotFound, versions: Mapping[str, int]) -> None:
        """A vacuum was allowed to delete files of at least one of the versions."""
        if all(self.is_kept(name, version) for name, version in versions.items()):
            pytest.fail(f"{error} {self.done}")

    def is_kept(self, name: str, version: int) -> bool:
        """Whether no vacuum was allowed to delete files of a version."""
        tagged = any(cut.get(name) == version for cut in self.tags.values())
        return tagged or version >= self.floor.get(name, 0)

    def catch_up(self, name: str) -> None:
        """Versions that only moved rows."""
        past = self.past[name]
        while len(past) <= self.lake.table(name).version:
            past.append(past[-1])

    def now(self, name: str) -> State:
        return self.past[name][-1]

    def any_table(self) -> str:
        return self.chance.choice(sorted(self.past))

    def column(self, state: State) -> int | None:
        """A column other than the key and the partition, if there is one."""
        others = [n for n in state.names if n not in (_ID, _P)]
        return self.chance.choice(others) if others else None

    def rows(self, state: State, count: int) -> list[Row]:
        return [self.row(state) for _ in range(count)]

    def row(self, state: State) -> Row:
        self.next += 1
        row: Row = {_ID: self.next - 1, _P: self.chance.choice(["x", "y", None])}
        others = [n for n in state.names if n not in row]
        return row | {n: self.chance.choice(["1", "2", None]) for n in others}

    def arrow(self, state: State, rows: Sequence[Row]) -> pa.Table:
        types = {_ID: pa.int64()}
        columns = {
            name: pa.array([r.get(n) for r in rows], types.get(n, pa.string()))
            for n, name in state.names.items()
        }
        return pa.table(columns)


SEEDS: Final = [
    pytest.param(1, 25, id="short"),
    *(
        pytest.param(
            seed, 150, id=f"full-{seed}", marks=[pytest.mark.full, pytest.mark.timeout(3600)]
        )
        for seed in range(2, 42)
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "steps"), SEEDS)
def test_a_random_walk_through_everything_loses_nothing(
    lake_target: LakeTarget, tmp_path: Path, seed: int, steps: int
) -> None:
    walk = Walk(lake_target, tmp_path, seed)
    try:
        for _ in range(steps):
            walk.step()
        report = walk.lake.doctor()
        assert not report.findings, (report.findings, walk.done)
    finally:
        walk.lake.close()
