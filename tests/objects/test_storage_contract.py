"""What every storage promises, asked of the disk, of S3, of Azure and of GCS alike."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import FileMissing, InvalidInput, StorageError, UnsupportedFeature
from lakeward.storage.attach import attach
from lakeward.storage.base import Storage
from tests.support.faulty_store import Fault, FaultyStore
from tests.support.inside import context_of
from tests.support.invariants import stranger_rows

if TYPE_CHECKING:
    from tests.support.azurite import Azurite
    from tests.support.gcs import Gcs
    from tests.support.s3 import S3Server

AWKWARD = ("a b", "p=ü%2F1", "x#y?z*", "~[q]{r}|^", "p=a%20b", "q=a b&c=d+e", "'\"`")

_S3 = pytest.param("s3", marks=pytest.mark.s3)
# One worker has the server: it listens at the port where clients look for an emulator.
_AZURE = pytest.param("azure", marks=[pytest.mark.azure, pytest.mark.xdist_group("azure")])
# One worker builds the server, which takes a while the first time.
_GCS = pytest.param("gcs", marks=[pytest.mark.gcs, pytest.mark.xdist_group("gcs")])


@pytest.fixture(
    params=[
        "local",
        _S3,
        _AZURE,
        _GCS,
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of storage that the test runs on: it runs once on each."""
    found: str = request.param
    return found


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """A fresh warehouse, and the options that reach it."""
    match kind:
        case "s3":
            server: S3Server = request.getfixturevalue("s3_server")
            return f"s3://{server.bucket()}/wh", server.options()
        case "azure":
            azurite: Azurite = request.getfixturevalue("azurite")
            return f"az://{azurite.container()}/wh", azurite.options()
        case "gcs":
            gcs: Gcs = request.getfixturevalue("gcs")
            return f"gs://{gcs.bucket()}/wh", gcs.options()
        case _:
            return str(tmp_path / "wh"), {}


@pytest.fixture
def storage(place: tuple[str, dict[str, str]]) -> Storage:
    """Its storage."""
    return attach(*place)


def test_a_name_is_given_once_and_what_has_it_is_left_alone(storage: Storage) -> None:
    assert storage.put_if_absent("t/1.json", b"first")
    storage.sync_names(["t/1.json"])

    assert not storage.put_if_absent("t/1.json", b"second")
    assert storage.read("t/1.json") == b"first"


def test_of_many_who_want_a_name_one_gets_it(storage: Storage) -> None:
    def put(number: int) -> bool:
        return storage.put_if_absent("t/1.json", f"from {number}".encode())

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(put, range(24)))

    assert sum(won) == 1
    assert storage.read("t/1.json") == f"from {won.index(True)}".encode()


def test_a_file_is_replaced_as_a_whole(storage: Storage) -> None:
    storage.put("t/x", b"first")
    storage.put("t/x", b"second")
    storage.replace("t/y", b"third")

    assert (storage.read("t/x"), storage.read("t/y")) == (b"second", b"third")


def test_a_new_file_is_read_by_its_writer_at_once_and_by_all_when_it_is_safe(
    storage: Storage, place: tuple[str, dict[str, str]]
) -> None:
    data = pa.py_buffer(bytes(range(256)) * 100_000)
    pending = [storage.create(f"t/part-{n}", data) for n in range(8)]

    assert storage.size("t/part-7") == data.size
    assert storage.read("t/part-6") == data.to_pybytes()
    for one in pending:
        one.wait()
    other = attach(*place)
    assert {other.size(f"t/part-{n}") for n in range(8)} == {data.size}


def test_what_is_deleted_does_not_arrive_later(storage: Storage) -> None:
    names = [f"t/part-{n}" for n in range(4)]
    pending = [storage.create(name, pa.py_buffer(b"x" * 1_000_000)) for name in names]

    storage.delete([*names, "t/never-was"])
    for one in pending:
        one.wait()

    assert list(storage.listing("t")) == []


def test_what_is_not_there_is_told_and_listed_as_nothing(storage: Storage) -> None:
    with pytest.raises(FileMissing, match="t/none"):
        storage.read("t/none")
    with pytest.raises(FileMissing):
        storage.size("t/none")
    assert not storage.exists("t/none")
    assert list(storage.listing("nowhere", recursive=True)) == []
    assert storage.directories("nowhere") == []
    storage.delete(["t/none"])
    storage.delete_directory("nowhere")


def test_listings_name_files_by_the_path_that_was_asked_for(storage: Storage) -> None:
    for name in ("t/a", "t/in/b", "t/in/deep/c", "t2/d", ".hidden/e"):
        storage.put(name, name.encode())

    assert {f.path for f in storage.listing("t")} == {"t/a"}
    assert {(f.path, f.size) for f in storage.listing("t", recursive=True)} == {
        ("t/a", 3),
        ("t/in/b", 6),
        ("t/in/deep/c", 11),
    }
    assert storage.directories("t") == ["t/in"]
    assert storage.directories("") == ["t", "t2"]
    full = storage.uri("t")
    assert {f.path for f in storage.listing(full, recursive=True)} == {
        f"{full}/{name}" for name in ("a", "in/b", "in/deep/c")
    }
    assert storage.locate(full) == "t"
    storage.delete_directory("t")
    assert storage.directories("") == ["t2"]


@pytest.mark.parametrize("name", AWKWARD)
def test_names_are_taken_literally(storage: Storage, name: str) -> None:
    storage.put(f"t/{name}/f", b"1")

    assert storage.read(f"t/{name}/f") == b"1"
    assert [f.path for f in storage.listing("t", recursive=True)] == [f"t/{name}/f"]
    assert storage.directories("t") == [f"t/{name}"]


@pytest.mark.parametrize("path", ["../x", "t/../../x", "t/.."])
def test_paths_that_climb_are_refused(storage: Storage, path: str) -> None:
    for call in (storage.read, storage.exists, storage.size):
        with pytest.raises(InvalidInput):
            call(path)
    with pytest.raises(InvalidInput):
        storage.put(path, b"")


@pytest.mark.parametrize("elsewhere", ["s3://other/x", "az://other/x", "gs://other/x"])
def test_places_of_another_kind_are_out_of_reach(
    storage: Storage, kind: str, elsewhere: str
) -> None:
    if elsewhere.startswith({"s3": "s3", "azure": "az", "gcs": "gs"}.get(kind, "none")):
        return
    with pytest.raises((InvalidInput, UnsupportedFeature)):
        storage.locate(elsewhere)
    with pytest.raises(UnsupportedFeature):
        storage.path_of(elsewhere)


def test_arrow_reads_what_was_written_in_any_order(storage: Storage) -> None:
    rows = pa.table({"id": range(200_000), "text": [f"row {n}" for n in range(200_000)]})
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=20_000)
    storage.create("t/rows.parquet", pa.py_buffer(sink.getvalue())).wait()

    filesystem, root = storage.arrow_filesystem()
    file = pq.ParquetFile(f"{root}/t/rows.parquet", filesystem=filesystem)

    assert file.read_row_group(7, columns=["text"]).column(0)[0].as_py() == "row 140000"
    assert file.read().equals(rows)
    with pytest.raises(FileNotFoundError):
        pq.read_metadata(f"{root}/t/none.parquet", filesystem=filesystem)


@pytest.mark.parametrize("kind", [_S3, _GCS])
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.LATE, Fault.TORN, Fault.OVERLOADED])
def test_a_put_whose_answer_is_lost_is_known_for_its_own(
    kind: str, request: pytest.FixtureRequest, fault: Fault
) -> None:
    server: S3Server | Gcs = request.getfixturevalue("s3_server" if kind == "s3" else "gcs")
    with FaultyStore(server.port) as store:
        options = {**server.options(store.endpoint), "timeout": "400ms"}
        storage = attach(f"{kind.replace('gcs', 'gs')}://{server.bucket()}", options)
        struck = iter([fault])
        store.decide = lambda _m, _p: next(struck, None)

        assert storage.put_if_absent("t/1.json", b"ours")
        assert not storage.put_if_absent("t/1.json", b"theirs")
        assert store.happened == {fault: 1}


@pytest.mark.parametrize("kind", [_AZURE, _GCS])
def test_a_lake_of_both_formats_works(place: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    warehouse, options = place
    with lw.open(tmp_path / "lake", warehouse=warehouse, storage_options=options) as lake:
        for table_format in ("delta", "iceberg"):
            lake.create(table_format, "id int64, p string", format=table_format, partition_by=["p"])
        for number in range(12):
            with lake.transaction() as tx:
                for table_format in ("delta", "iceberg"):
                    tx.append(table_format, pa.table({"id": [number], "p": ["a b/c"]}))
        with lake.transaction() as tx:
            for table_format in ("delta", "iceberg"):
                tx.delete(table_format, where="id = 3")
        lake.publish()
        for table_format in ("delta", "iceberg"):
            assert lake.table(table_format).to_arrow().num_rows == 11
        assert lake.doctor().findings == ()
        rows = stranger_rows(lake.table("delta").location, context_of(lake).storage.delta_options())
        assert rows.total() == 11


@pytest.mark.parametrize("kind", [_AZURE])
def test_wrong_credentials_and_containers_are_told_on_azure(
    place: tuple[str, dict[str, str]],
) -> None:
    _, options = place
    with pytest.raises(StorageError, match="does not exist"):
        attach("az://no-such-box/wh", options)
    wrong = {**options, "AZURE_STORAGE_ACCOUNT_KEY": "d3Jvbmc="}
    with pytest.raises(StorageError, match="does not let these credentials") as caught:
        attach(f"{place[0]}/elsewhere", wrong)
    assert "d3Jvbmc" not in str(caught.value)
