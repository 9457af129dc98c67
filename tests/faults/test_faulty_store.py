"""R6, and the store's half of R4: a warehouse whose store fails, stalls and loses its answers."""

from __future__ import annotations

import random
import re
from collections.abc import Generator, Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

import lakeward as lw
from lakeward.errors import StorageError
from tests.support.faulty_store import Decide, Fault, FaultyStore
from tests.support.invariants import check_lake
from tests.support.s3 import S3Server
from tests.support.sizes import sizes

pytestmark = [pytest.mark.s3, pytest.mark.slow]

FORMATS = ("delta", "iceberg")
COMMIT = re.compile(r"/_delta_log/\d{20}\.json$")
IMPATIENT = {"timeout": "400ms", "connect_timeout": "400ms"}


@pytest.fixture
def store(s3_server: S3Server) -> Generator[FaultyStore]:
    """A proxy before the S3 server."""
    with FaultyStore(s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def lake(
    store: FaultyStore, s3_server: S3Server, bucket: str, tmp_path: Path
) -> Generator[lw.Lake]:
    """A lake that reaches its warehouse through the proxy."""
    with lw.open(
        tmp_path / "lake",
        warehouse=f"s3://{bucket}/wh",
        storage_options={**s3_server.options(store.endpoint), **IMPATIENT},
    ) as lake:
        yield lake


@pytest.fixture
def witness(s3_server: S3Server, bucket: str, tmp_path: Path, lake: lw.Lake) -> lw.Lake:
    """The same lake, by a way on which nothing goes wrong."""
    return lw.open(
        tmp_path / "lake",
        warehouse=f"s3://{bucket}/wh",
        storage_options=s3_server.options(),
        repair=False,
    )


@sizes("commits", short=25, full=1000)
def test_nothing_is_lost_while_a_third_of_the_answers_fail(
    lake: lw.Lake, witness: lw.Lake, store: FaultyStore, commits: int
) -> None:
    for name in FORMATS:
        lake.create(name, "id int64", format=name)
    choose = random.Random(6)
    faults = [*Fault] * 3 + [Fault.INTERNAL, Fault.OVERLOADED, Fault.TOO_MANY] * 9

    store.decide = lambda _m, _p: choose.choice(faults) if choose.random() < 0.3 else None
    for number in range(commits):
        append(lake, FORMATS, pa.table({"id": [number]}))
        if number % 10 == 0:
            assert lake.table("delta").to_arrow().num_rows == number + 1
    lake.publish()
    store.decide = lambda _m, _p: None

    assert set(store.happened) == set(Fault)
    rows = check_lake(witness, FORMATS)
    assert rows["delta"] == rows["iceberg"] == {(n,): 1 for n in range(commits)}
    assert lake.table("delta").version == commits
    told = ", ".join(f"{n} {f.name.lower()}" for f, n in sorted(store.happened.items(), key=str))
    print(f"\nR6: {commits} commits of two tables, {store.requests} requests; {told}; nothing lost")


@sizes("appends", short=8, full=200)
@pytest.mark.parametrize("each", ["append", "file"])
def test_lost_answers_cost_us_nothing_and_delta_rs_its_versions(
    lake: lw.Lake,
    witness: lw.Lake,
    store: FaultyStore,
    s3_server: S3Server,
    bucket: str,
    appends: int,
    each: str,
) -> None:
    """One run, one proxy: the answer to a commit's file is lost, once an append or once a file."""
    # Where it is lost once a file, delta-rs goes on to the next one, and on.
    appends = appends if each == "append" else appends // 4
    lake.create("guarded", "id int64")
    lake.create("open", "id int64", guard=False)
    theirs = f"s3://{bucket}/theirs"
    write_deltalake(theirs, pa.table({"id": [-1]}), storage_options=s3_server.options())
    options = s3_server.options(store.endpoint)
    failed = 0

    store.decide = losing_answers()
    for number in range(appends):
        rows = pa.table({"id": [number]})
        for name in ("guarded", "open"):
            store.decide = once(losing_answers()) if each == "append" else store.decide
            assert append(lake, [name], rows).published
        store.decide = once(losing_answers()) if each == "append" else store.decide
        try:
            write_deltalake(theirs, rows, mode="append", storage_options=options)
        except (DeltaError, OSError):
            failed += 1
    store.decide = lambda _m, _p: None

    for name in ("guarded", "open"):
        assert lake.table(name).version == appends
        assert check_lake(witness, [name])[name] == {(n,): 1 for n in range(appends)}
    found = DeltaTable(theirs, storage_options=s3_server.options())
    kept = pa.table(found.scan()).num_rows - 1
    print(
        f"\nR4 store, an answer lost for each {each}: {appends} appends; ours {appends} versions,"
        f" none told failed; delta-rs {found.version()} versions, {kept} rows, {failed} told failed"
    )
    # What becomes of delta-rs is measured, not promised; that the same fault struck it is.
    assert store.happened[Fault.LOST] >= 3 * appends


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.TORN, Fault.UNHEARD, Fault.BAD_GATEWAY])
def test_whatever_becomes_of_an_answer_there_is_one_version_per_append(
    lake: lw.Lake, witness: lw.Lake, store: FaultyStore, fault: Fault
) -> None:
    names = ("guarded", "open")
    for name in names:
        lake.create(name, "id int64", guard=name == "guarded")

    store.decide = losing_answers(fault)
    for name in names:
        for number in range(2):
            assert append(lake, [name], pa.table({"id": [number]})).published
    store.decide = lambda _m, _p: None

    assert store.happened[fault] == 4
    for name in names:
        assert lake.table(name).version == 2
        assert check_lake(witness, [name])[name] == {(0,): 1, (1,): 1}


def test_a_store_that_goes_away_while_rows_are_staged_is_told_and_nothing_is_committed(
    lake: lw.Lake, witness: lw.Lake, store: FaultyStore, s3_server: S3Server, tmp_path: Path
) -> None:
    for name in FORMATS:
        lake.create(name, "id int64", format=name)
    hasty = {**s3_server.options(store.endpoint), **IMPATIENT, "retry_timeout": "1s"}
    with lw.open(tmp_path / "lake", warehouse=lake.warehouse, storage_options=hasty) as impatient:
        store.decide = lambda method, _: Fault.REFUSED if method == "PUT" else None
        with pytest.raises(StorageError, match="could not be written or read"):
            append(impatient, FORMATS, pa.table({"id": [1]}))
        store.decide = lambda _m, _p: None

        assert [lake.table(n).version for n in FORMATS] == [0, 0]
        append(impatient, FORMATS, pa.table({"id": [2]}))
    check_lake(witness, FORMATS)


def test_a_commit_whose_file_cannot_be_published_stands_and_is_published_later(
    lake: lw.Lake, witness: lw.Lake, store: FaultyStore, s3_server: S3Server, tmp_path: Path
) -> None:
    lake.create("t", "id int64")
    hasty = {**s3_server.options(store.endpoint), **IMPATIENT, "retry_timeout": "1s"}
    with lw.open(tmp_path / "lake", warehouse=lake.warehouse, storage_options=hasty) as impatient:
        store.decide = lambda _, path: Fault.OVERLOADED if "_delta_log" in path else None
        assert not append(impatient, ["t"], pa.table({"id": [1]})).published
        store.decide = lambda _m, _p: None

    assert impatient.table("t").version == 1
    check_lake(witness, ["t"])


def append(lake: lw.Lake, names: Iterable[str], rows: pa.Table) -> lw.CommitResult:
    """Append to several tables as one."""
    with lake.transaction() as tx:
        for name in names:
            tx.append(name, rows)
    return tx.commit()


def losing_answers(fault: Fault = Fault.LOST) -> Decide:
    """Lets the first answer to each commit's file fail; the repeated request is answered."""
    struck: set[str] = set()

    def decide(method: str, path: str) -> Fault | None:
        if method != "PUT" or not COMMIT.search(path) or path in struck:
            return None
        struck.add(path)
        return fault

    return decide


def once(decide: Decide) -> Decide:
    """Lets one request alone fail."""
    struck = False

    def decided(method: str, path: str) -> Fault | None:
        nonlocal struck
        fault = None if struck else decide(method, path)
        struck = struck or fault is not None
        return fault

    return decided
