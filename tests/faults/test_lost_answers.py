"""R4: requests to the store and answers of the store that get lost, in commits over two tables."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lakeward as lw
from lakeward.errors import LakewardError, Locked, OutcomeUnknown, StoreError, StoreUnavailable
from tests.support import processes
from tests.support.invariants import check_lake, transaction_ids
from tests.support.losses import Loss, Losses, LossyProxy
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

pytestmark = pytest.mark.slow

TABLES = ("left", "right")
_MOST = 200


@pytest.fixture(params=[("delta", "delta"), ("delta", "iceberg")], ids="+".join)
def formats(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The formats of the two tables."""
    pair: tuple[str, str] = request.param
    return pair


@pytest.fixture
def title(store: str, formats: tuple[str, str]) -> str:
    """What the figures are about."""
    return f"R4 {store} {'+'.join(formats)}"


@pytest.fixture
def lossy(
    lake_target: LakeTarget, lossy_target: LakeTarget, formats: tuple[str, str]
) -> Generator[lw.Lake]:
    """The lake through a connection that may lose things, with two tables."""
    with lake_target.open() as lake:
        create_tables(lake, formats)
    with lossy_target.open() as lake:
        yield lake


@sizes("commits", short=50, full=1000)
def test_a_tenth_of_the_answers_lost_gives_one_version_per_commit(
    lossy: lw.Lake, make_lake: Callable[[], lw.Lake], losses: Losses, commits: int, title: str
) -> None:
    choose = random.Random(11)
    with losses.of_ratifications(lambda: _any(choose) if choose.random() < 0.1 else None):
        told = {label: commit(lossy, label) for label in (f"commit{n}" for n in range(commits))}
    assert set(losses.happened) == set(Loss)
    expect(make_lake(), told=told)
    print(f"\n{title}: {commits} commits, {_count(losses)} lost, one version each")


@sizes("commits", short=15, full=500)
@pytest.mark.parametrize("loss", Loss)
def test_every_first_answer_lost_gives_one_version_per_commit(
    lossy: lw.Lake,
    lake_target: LakeTarget,
    make_lake: Callable[[], lw.Lake],
    losses: Losses,
    loss: Loss,
    commits: int,
    title: str,
) -> None:
    # Somebody else commits all the while, so that a second attempt finds another head.
    bystander = processes.start(commit_until_told, lake_target)
    bystander.hear()
    told = {}
    for number in range(commits):
        left = iter([loss])
        with losses.of_ratifications(partial(next, left, None)):
            told[f"lossy{number}"] = commit(lossy, f"lossy{number}")
    assert losses.happened == [loss] * commits
    bystander.tell("stop")
    told |= bystander.finish()[-1]
    expect(make_lake(), told=told)
    print(
        f"\n{title}: every first {loss.value} of {commits} commits lost, one version each,"
        f" among {len(told) - commits} commits of another process"
    )


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("inside", [False, True], ids=["at the end", "in the block"])
def test_every_answer_lost_is_an_unknown_outcome_that_is_found_by_id_later(
    lossy: lw.Lake, make_lake: Callable[[], lw.Lake], losses: Losses, loss: Loss, inside: bool
) -> None:
    told = {"before": commit(lossy, "before")}
    with (
        losses.of_ratifications(lambda: loss),
        losses.anywhere(lambda: loss if losses.happened else None),
    ):
        tx = lossy.transaction(transaction_id="doubtful")
        with pytest.raises(OutcomeUnknown) as caught:
            commit_block(tx, inside=inside)
        staged = staged_files(lossy, "doubtful")
        with pytest.raises(LakewardError):
            lossy.outcome("doubtful")
    assert caught.value.transaction_id == "doubtful"
    assert len(staged) == len(TABLES), "a file was deleted while the outcome was unknown"

    happened = lossy.outcome("doubtful").committed
    assert happened is (loss is Loss.ANSWER)
    expect(make_lake(), told=told | ({"doubtful": 2} if happened else {}))
    if not inside:
        # Calling it again settles it: it commits once, whatever became of the first attempt.
        assert tx.commit().versions == {"left": 2, "right": 2}
        expect(make_lake(), told=told | {"doubtful": 2})


@pytest.mark.parametrize("loss", Loss)
def test_each_single_request_or_answer_lost_neither_doubles_nor_hides_anything(
    lossy: lw.Lake,
    make_lake: Callable[[], lw.Lake],
    losses: Losses,
    loss: Loss,
    title: str,
    formats: tuple[str, str],
) -> None:
    """The n-th request of a commit and of a new table, for each n that there is."""
    told: dict[str, int] = {}
    made: dict[str, bool] = {}
    for number in range(1, _MOST):
        before = len(losses.happened)
        with losses.anywhere(nth(number, loss)), suppress(StoreError):
            told[f"commit{number}"] = commit(lossy, f"commit{number}")
        made[f"made{number}"] = False
        with losses.anywhere(nth(number, loss)), suppress(StoreError):
            lossy.create(f"made{number}", {"label": "string"}, format=formats[1])
            made[f"made{number}"] = True
        if len(losses.happened) == before:
            break
    else:
        pytest.fail("there is no end to the requests")
    lake = make_lake()
    expect(lake, told=told)
    assert {t.name for t in lake.tables()} - set(TABLES) == {name for name in made if made[name]}
    check_lake(lake, [name for name in made if made[name]])
    print(
        f"\n{title}: each single {loss.value} lost, {len(losses.happened)} in all:"
        f" {len(told)} commits and {sum(made.values())} tables done, once each"
    )


@pytest.mark.parametrize("loss", Loss)
def test_each_single_request_or_answer_lost_leaves_a_lock_held_once_or_not_at_all(
    lossy: lw.Lake, make_lake: Callable[[], lw.Lake], losses: Losses, loss: Loss
) -> None:
    """The n-th request of asking for a lock that is free, and for one that somebody else holds."""
    other = make_lake()
    holder = other.transaction(locks={"right": "write"})
    held = {("right", holder.transaction_id)}
    for number in range(1, _MOST):
        before = len(losses.happened)
        tx = lossy.transaction()
        granted = False
        with losses.anywhere(nth(number, loss)), suppress(StoreError):
            tx.lock("left")
            granted = True
        mine = {("left", tx.transaction_id)} if granted else set()
        assert {(lock.table, lock.transaction_id) for lock in other.locks()} == held | mine
        tx.rollback()
        waiter = lossy.transaction()
        with losses.anywhere(nth(number, loss)), suppress(StoreError, Locked):
            waiter.lock("right", timeout=0.01)
            pytest.fail("two hold the lock")
        waiter.rollback()
        assert [(lock.table, lock.waiters) for lock in other.locks()] == [("right", ())]
        if len(losses.happened) == before:
            break
    else:
        pytest.fail("there is no end to the requests")
    holder.rollback()


@pytest.mark.parametrize("store", [pytest.param("postgres", marks=pytest.mark.postgres)])
def test_table_dropped_before_the_lost_answer_is_asked_for_does_not_make_the_commit_fail(
    lossy: lw.Lake, make_lake: Callable[[], lw.Lake], losses: Losses
) -> None:
    other = make_lake()

    def drop() -> None:
        if losses.happened and len(other.tables()) == len(TABLES):
            other.drop("left")

    left = iter([Loss.ANSWER])
    with losses.of_ratifications(partial(next, left, None)), losses.anywhere(drop):
        assert commit(lossy, "only") == 1
    assert lossy.outcome("only").versions == {"left": 1, "right": 1}


@sizes("commits", short=30, full=1000)
@pytest.mark.usefixtures("impatient")
def test_any_request_or_answer_lost_never_contradicts_what_the_client_was_told(
    lossy: lw.Lake, make_lake: Callable[[], lw.Lake], losses: Losses, commits: int, title: str
) -> None:
    choose = random.Random(13)
    told: dict[str, int | str] = {}
    with losses.anywhere(lambda: _any(choose) if choose.random() < 0.03 else None):
        for number in range(commits):
            label = f"commit{number}"
            try:
                told[label] = commit(lossy, label)
            except OutcomeUnknown:
                told[label] = "unknown"
            except LakewardError:
                told[label] = "failed"
    lake = make_lake()
    for label, what in told.items():
        if what == "unknown" and (found := lake.outcome(label)).committed:
            told[label] = found.versions["left"]
    expect(lake, told={label: v for label, v in told.items() if isinstance(v, int)})
    words = Counter("committed" if isinstance(v, int) else v for v in told.values())
    assert words["committed"]
    assert words["failed"]
    print(f"\n{title}: {_count(losses)} lost anywhere: {dict(words)}")


@pytest.mark.postgres
@pytest.mark.usefixtures("impatient")
def test_store_gone_for_good_deletes_nothing(
    postgres_server: Postgres, tmp_path: Path, losses: Losses, formats: tuple[str, str]
) -> None:
    with (
        postgres_server.database() as database,
        LossyProxy(postgres_server.socket, losses) as proxy,
    ):
        lake = LakeTarget(proxy.url(database), tmp_path / "lake").open()
        create_tables(lake, formats)

        def vanish() -> Loss:
            proxy.vanish()
            return Loss.ANSWER

        with losses.of_ratifications(vanish), pytest.raises(OutcomeUnknown):
            commit(lake, "doubtful")
        assert len(staged_files(lake, "doubtful")) == len(TABLES)
        with pytest.raises(StoreUnavailable):
            lake.outcome("doubtful")

        proxy.come_back()
        happened = lake.outcome("doubtful").committed
        expect(lake, told={"doubtful": 1} if happened else {})
        lake.close()


def create_tables(lake: lw.Lake, formats: tuple[str, str]) -> None:
    for name, form in zip(TABLES, formats, strict=True):
        # A transaction that is tried again must not take its own rows for those of others.
        key = {"label": lw.Unique("label")}
        lake.create(name, {"label": "string"}, format=form, constraints=key)


def commit(lake: lw.Lake, label: str) -> int:
    with lake.transaction(transaction_id=label) as tx:
        append(tx, label)
    versions = tx.commit().versions
    assert set(versions) == set(TABLES)
    return versions["left"]


def commit_block(tx: lw.Transaction, *, inside: bool) -> None:
    with tx:
        append(tx, tx.transaction_id)
        if inside:
            tx.commit()


def commit_until_told(pipe: Connection, target: LakeTarget) -> None:
    lake = target.open()
    told: dict[str, int] = {}
    pipe.send("ready")
    while not pipe.poll(0.002):
        label = f"bystander{len(told)}"
        told[label] = commit(lake, label)
    pipe.send(told)


def append(tx: lw.Transaction, label: str) -> None:
    for name in TABLES:
        tx.append(name, [{"label": label}])


def expect(lake: lw.Lake, *, told: dict[str, int]) -> None:
    """Each commit is there once, at the version that its client was told, and nothing else is."""
    lake.publish()
    rows = check_lake(lake, TABLES)
    committed = sorted(told, key=lambda label: told[label])
    assert sorted(told.values()) == list(range(1, len(told) + 1))
    for name in TABLES:
        assert transaction_ids(lake, name)[1:] == committed
        assert rows[name] == Counter((label,) for label in committed)


def nth(number: int, loss: Loss) -> Callable[[], Loss | None]:
    """Loses something at the n-th time it is asked."""
    requests = count(1)
    return lambda: loss if next(requests) == number else None


def staged_files(lake: lw.Lake, label: str) -> list[Path]:
    return list(Path(lake.warehouse).glob(f"*/part-*{label}*.parquet"))


def _any(choose: random.Random) -> Loss:
    return choose.choice(list(Loss))


def _count(losses: Losses) -> str:
    counts = Counter(loss.value for loss in losses.happened)
    return " and ".join(f"{n} {what}s" for what, n in sorted(counts.items()))
