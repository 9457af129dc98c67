"""Many clients at once, killed at random and at named steps, and the history of what they did.

Instead of the clients, something else may be broken under them.

Nobody who was killed can say what became of its transaction: it is asked for by its id, right away
and again when all is quiet. What the log said once must stay true, and agree with what everybody
else sees.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait

import lakeward as lw
from lakeward.errors import TransactionNotFound
from lakeward.lake.table import Table
from lakeward.model.commit import TransactionState
from lakeward.model.steps import STEPS
from tests.faults.isolation.client import Begun, Ended, Message, Task, work
from tests.faults.isolation.history import (
    LAST_KEY,
    Level,
    Operation,
    Read,
    Transaction,
)
from tests.support import processes
from tests.support.processes import Worker
from tests.support.target import LakeTarget


@dataclass(frozen=True, slots=True)
class Load:
    """How much is done.

    Attributes:
        transactions: In all.
        clients: At once.
        round: How many transactions share tables, before they get fresh ones: few enough that
            everything read can be compared with everything written.
        between_kills: How many messages are heard between two kills, at most; 0 kills nobody.
    """

    transactions: int
    clients: int = 6
    round: int = 250
    between_kills: int = 150


@dataclass
class Client:
    """A client that runs, and the transaction that it is in."""

    task: Task
    worker: Worker
    begun: int = 0
    open: Begun | None = None
    operations: list[Operation] = field(default_factory=list)


class Campaign:
    """Runs clients on a lake, round by round.

    Attributes:
        counts: What happened how often, for people.
        histories: One per round, each complete in itself.
        contradictions: Where the log has other versions than clients were told.
        tables: Those of the last round, which are still there in the end.
    """

    def __init__(
        self,
        target: LakeTarget,
        levels: tuple[Level, ...],
        load: Load,
        *,
        formats: tuple[str, ...] = ("delta",),
        tables: int = 4,
        keys: int = 5,
        seed: int = 3,
        disturb: Callable[[], None] | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.histories: list[list[Transaction]] = []
        self.contradictions: list[str] = []
        self.tables: tuple[str, ...] = ()
        self._target = target
        self._levels = levels
        self._load = load
        self._formats = formats
        self._number = tables
        self._keys = keys
        self._choose = random.Random(seed)
        self._disturb = disturb
        self._clients_so_far = 0
        self._history: list[Transaction] = []
        self._doubtful: list[tuple[Transaction, TransactionState | None]] = []

    def run(self, lake: lw.Lake) -> None:
        """Run all of it."""
        left = self._load.transactions
        while left > 0:
            for name in self.tables:
                lake.drop(name)
            number = len(self.histories)
            self.tables = tuple(self._table(lake, number, n) for n in range(self._number))
            self.histories.append(self._round(lake, self.tables, min(left, self._load.round)))
            left -= self._load.round

    def _table(self, lake: lw.Lake, number: int, place: int) -> str:
        name = f"round{number}.table{place}"
        form = self._formats[place % len(self._formats)]
        lake.create(
            name,
            {"key": "int64", "value": "int64"},
            format=form,
            # Partitions, too, decide what meets what.
            partition_by=["key"] if place // len(self._formats) % 2 else [],
            policy={"checkpoint_interval": 7} if form == "delta" else {},
        )
        return name

    def _round(
        self, lake: lw.Lake, tables: tuple[str, ...], transactions: int
    ) -> list[Transaction]:
        self._history, self._doubtful = [], []
        share, more = divmod(transactions, self._load.clients)
        clients = [
            self._start(tables, share + (number < more)) for number in range(self._load.clients)
        ]
        try:
            until_kill = self._until_kill()
            while clients:
                for ready in wait([c.worker.pipe for c in clients]):
                    client = next(c for c in clients if c.worker.pipe is ready)
                    try:
                        message = client.worker.hear()
                    except (EOFError, OSError):
                        clients.remove(client)
                        self._note_end(lake, client)
                        if left := client.task.transactions - client.begun:
                            clients.append(self._start(tables, left))
                        continue
                    if message is not None:
                        self._note(client, message)
                    until_kill -= 1
                    if until_kill == 0:
                        self._break(clients)
                        until_kill = self._until_kill()
        finally:
            for client in clients:
                client.worker.process.kill()
        settled = [self._settled(lake, t, state) for t, state in self._doubtful]
        history = [*self._history, *settled]
        self.contradictions += contradictions(lake, tables, history)
        return [*history, look_at_everything(lake, tables)]

    def _start(self, tables: tuple[str, ...], transactions: int) -> Client:
        self._clients_so_far += 1
        die = None
        if self._load.between_kills and self._disturb is None and self._choose.random() < 0.5:
            die = self._choose.choice(STEPS), self._choose.randrange(1, 6)
        task = Task(
            self._target,
            self._clients_so_far,
            tables,
            self._keys,
            self._levels,
            transactions,
            die,
        )
        return Client(task, processes.start(work, task))

    def _until_kill(self) -> int:
        most = self._load.between_kills
        return self._choose.randrange(most // 2, most) if most else -1

    def _break(self, clients: Sequence[Client]) -> None:
        if self._disturb is not None:
            self.counts["disturbed"] += 1
            self._disturb()
        else:
            self._choose.choice(clients).worker.process.kill()

    def _note(self, client: Client, message: Message) -> None:
        if isinstance(message, Begun):
            client.begun += 1
            client.open = message
            client.operations = []
        elif not isinstance(message, Ended):
            client.operations.append(message)
        elif message.committed is None:
            self.counts["outcome unknown"] += 1
            self._doubtful.append((self._ended(client, message), TransactionState.OPEN))
        else:
            done = self._ended(client, message)
            only_read = len(done.reads) == len(done.operations)
            what = "committed" if done.committed else "refused or given up"
            self.counts["only read" if only_read else what] += 1
            self._history.append(done)

    def _note_end(self, lake: lw.Lake, client: Client) -> None:
        """A client has ended: ask for the transaction that it was in."""
        process = client.worker.process
        process.join()
        client.worker.pipe.close()
        if process.exitcode == 0:
            return
        assert client.worker.killed, f"a client ended with {process.exitcode}"
        self.counts["killed"] += 1
        if client.open is not None:
            self.counts["killed in a transaction"] += 1
            state, versions = outcome(lake, client.open.label)
            committed = state is TransactionState.RATIFIED
            end = Ended(committed=committed, returned=time.monotonic_ns(), versions=versions)
            self._doubtful.append((self._ended(client, end), state))

    def _ended(self, client: Client, end: Ended) -> Transaction:
        assert client.open is not None
        begun, client.open = client.open, None
        return Transaction(
            begun.label,
            tuple(client.operations),
            end.committed is True,
            begun.called,
            end.returned,
            dict(end.versions),
            begun.level,
        )

    def _settled(
        self, lake: lw.Lake, transaction: Transaction, before: TransactionState | None
    ) -> Transaction:
        """What became of a transaction in the end; it cannot be other than what was said before."""
        state, versions = outcome(lake, transaction.label)
        committed = state is TransactionState.RATIFIED
        self.counts["found committed" if committed else "found not committed"] += 1
        if committed == transaction.committed and versions == transaction.versions:
            return transaction
        if before is not TransactionState.OPEN:
            said = f"{before} {transaction.versions}, now {state} {versions}"
            self.contradictions.append(f"{transaction.label} was {said}")
        returned = time.monotonic_ns()
        return replace(transaction, committed=committed, versions=versions, returned=returned)


def outcome(lake: lw.Lake, label: str) -> tuple[TransactionState | None, dict[str, int]]:
    """What the log says of a transaction; None when it knows none of this id."""
    try:
        found = lake.outcome(label)
    except TransactionNotFound:
        return None, {}
    return found.state, dict(found.versions)


def contradictions(lake: lw.Lake, tables: tuple[str, ...], history: list[Transaction]) -> list[str]:
    """Where a table's log has not just the versions that clients were told, by their ids."""
    out = []
    for name in tables:
        told = {t.versions[name]: t.label for t in history if t.committed and name in t.versions}
        found = versions_of(lake.table(name))
        wrong = sorted(set(told.items()) ^ set(found.items()))
        out += [f"version {v} of {name}, {label}, is only told or only there" for v, label in wrong]
    return out


def versions_of(table: Table) -> dict[int, str]:
    """Who committed which version, without the one that made the table."""
    return {v.version: v.transaction_id for v in table.history() if v.version > 0}


def look_at_everything(lake: lw.Lake, tables: tuple[str, ...]) -> Transaction:
    """A last transaction that reads all rows, when nobody writes any more."""
    called = time.monotonic_ns()
    reads: list[Operation] = []
    with lake.snapshot() as snapshot:
        for name in tables:
            seen: dict[int, tuple[int, ...]] = {}
            for row in snapshot.table(name).to_arrow().to_pylist():
                seen[row["key"]] = (*seen.get(row["key"], ()), row["value"])
            reads.append(Read(name, 0, LAST_KEY, seen, called))
    return Transaction("the end", tuple(reads), called=called, returned=time.monotonic_ns())
