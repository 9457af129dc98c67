"""Many scenarios on one lake: which combinations are drawn, and what became of each."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, product
from typing import Any

import lakeward as lw
from tests.property.model import SCHEMA, Append
from tests.property.oracle import Oracle
from tests.property.play import Attempt, Player, RefusedAtBegin
from tests.property.rival import Rival
from tests.property.script import (
    KINDS,
    LEVELS,
    REPLAYING,
    SETTLING,
    STRATEGIES,
    WAYS,
    Generator,
    Others,
    Script,
)

_OPTIONS: dict[str, dict[str, Any]] = {
    "delta": {"format": "delta"},
    "vectors": {
        "format": "delta",
        "policy": {"merge_on_read": True, "merge_on_read_fraction": 1},
    },
    "iceberg": {"format": "iceberg"},
}


@dataclass(frozen=True, order=True)
class Case:
    """A combination of what a user may ask for.

    Attributes:
        level: The isolation.
        way: `transaction` or `run`.
        strategy: For conflicts.
        mapped: Whether the strategy is given by table.
        kind: Of the first table.
    """

    level: str
    way: str
    strategy: str
    mapped: bool
    kind: str


def cases() -> list[Case]:
    """Every combination."""
    every = product(LEVELS, WAYS, STRATEGIES, (False, True), KINDS)
    return [Case(*c) for c in every if not (c[2] == "none" and c[3])]


def short_cases(chance: random.Random, *, spark: bool) -> list[Case]:
    """Every strategy with every kind of table once; what begins, if some of them do.

    What must be refused comes first, and of that what replays a change: it costs nothing, and is
    tried at once where it is not refused.
    """
    out = []
    for strategy, kind in product(STRATEGIES, KINDS):
        some = [c for c in cases() if (c.strategy, c.kind) == (strategy, kind)]
        begin = [c for c in some if can_begin(c, spark=spark)]
        out.append(chance.choice(begin or [c for c in some if can_begin(c, spark=False)]))
    chance.shuffle(out)
    return sorted(out, key=lambda c: (can_begin(c, spark=spark), c.strategy not in REPLAYING))


def can_begin(case: Case, *, spark: bool) -> bool:
    """Whether the documentation says that such a transaction begins."""
    if case.strategy in ("retry",) and case.way != "run":
        return False
    if spark:
        return case.strategy not in SETTLING and case.level != "read_committed"
    return case.strategy not in SETTLING or case.level == "snapshot"


@dataclass
class Campaign:
    """Scenarios with one lake, one other process and one engine.

    Attributes:
        player: Runs scripts here.
        rival: Runs them elsewhere.
        seed: Of all that is chosen.
        longest: How many operations a transaction has at most.
        counts: What happened, for people.
        begun: The combinations that were begun.
        refused: Those that the lake did not begin.
        tables: All that were made.
    """

    player: Player
    rival: Rival
    seed: int
    longest: int = 4
    counts: Counter[str] = field(default_factory=Counter)
    begun: set[Case] = field(default_factory=set)
    refused: set[Case] = field(default_factory=set)
    tables: list[str] = field(default_factory=list)
    _names: Iterator[int] = field(default_factory=count)

    @property
    def lake(self) -> lw.Lake:
        """Where all happens."""
        return self.player.lake

    def run(self, wanted: Iterable[Case], *, racing: bool = False) -> None:
        """One scenario for each case.

        Raises:
            Violated: The lake did what the model does not allow; says how to run it again.
        """
        for number, case in enumerate(wanted):
            chance = random.Random(f"{self.seed} {number}")
            try:
                (self._race if racing else self._scenario)(case, chance)
            except BaseException as error:
                error.add_note(f"seed {self.seed}, scenario {number}: {case}")
                raise

    def _scenario(self, case: Case, chance: random.Random) -> None:
        """A transaction, with others between its operations."""
        if not self.begins(case):
            return
        generator, tables, attempts = self._begin(case, chance)
        script = generator.script(tables, case.level, case.way, case.strategy, mapped=case.mapped)
        self._play(case, script, attempts)
        Oracle(self.lake, tables).check(attempts)

    def _race(self, case: Case, chance: random.Random) -> None:
        """Transactions here and in the other process, at the same time."""
        if not self.begins(case):
            return
        generator, tables, attempts = self._begin(case, chance)
        theirs = [
            self._alone(generator, tables, Case("snapshot", "run", "retry", False, case.kind))
        ]
        theirs += [self._alone(generator, tables, case) for _ in range(3)]
        self.rival.begin([t for t in theirs if can_begin(case, spark=False)])
        ours = [self._alone(generator, tables, case) for _ in range(4)]
        for script in ours:
            self._play(case, script, attempts)
        attempts += self.rival.finish()
        Oracle(self.lake, tables).check(attempts, alone=False)

    def _alone(self, generator: Generator, tables: list[str], case: Case) -> Script:
        script = generator.script(tables, case.level, case.way, case.strategy, mapped=case.mapped)
        places = [n for n, s in enumerate(script.steps) if not isinstance(s, Others)]
        return replace(
            script,
            steps=tuple(script.steps[n] for n in places),
            spelling=tuple(script.spelling[n] for n in places),
        )

    def _begin(
        self, case: Case, chance: random.Random
    ) -> tuple[Generator, list[str], list[Attempt]]:
        """Two tables of different kinds, with two files each."""
        generator = Generator(chance, self.longest)
        other = chance.choice([k for k in KINDS if k != case.kind])
        tables = []
        for kind in (case.kind, other):
            name = f"{kind}_{next(self._names)}"
            parts = ["p"] if chance.random() < 0.3 else []
            self.lake.create(name, SCHEMA, partition_by=parts, **_OPTIONS[kind])
            tables.append(name)
        self.tables += tables
        attempts: list[Attempt] = []
        for keys in (range(4), range(4, 8)):
            steps = tuple(Append(t, generator.rows(list(keys))) for t in tables)
            first = Script("snapshot", "transaction", "none", {}, steps, (0,) * len(steps))
            attempts += self.rival(first)
        return generator, tables, attempts

    def begins(self, case: Case) -> bool:
        """Whether the lake begins such a transaction, on tables that it need not look at."""
        names = {"there": case.strategy} if case.mapped else {}
        default = "none" if case.mapped else case.strategy
        try:
            self.player.play(Script(case.level, case.way, default, names))
        except RefusedAtBegin:
            self.refused.add(case)
            self.counts["refused at begin"] += 1
            return False
        return True

    def _play(self, case: Case, script: Script, attempts: list[Attempt]) -> None:
        found = self.player.play(script)
        self.begun.add(case)
        attempts += found
        mine = [a for a in found if a.script is script]
        self.counts["begun"] += len(mine)
        self.counts["committed"] += sum(a.versions is not None for a in mine)
        self.counts["settled"] += sum(bool(a.asked) for a in mine)
        self.counts["run again"] += len(mine) - 1
        self.counts["commits of others"] += len(found) - len(mine)
