"""A warehouse on an object store: S3, Azure or GCS.

A file is whole and safe when the store has answered; there are no directories to make and no names
to sync. Requests are repeated with growing pauses while the store is overloaded or away. So the
answer to a put may be lost and the put repeated: what a conditional put then finds under its name
is compared with what it was to write, and the same bytes are taken for its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs

from lakeward.errors import FileMissing, InvalidInput, StorageError, UnsupportedFeature
from lakeward.model.file import is_full
from lakeward.model.steps import reach
from lakeward.storage import clients
from lakeward.storage import engine_options as spelling
from lakeward.storage.base import Storage, StoredFile
from lakeward.storage.object_files import TAIL, ObjectFile, ObjectFiles
from lakeward.storage.options import StorageOptions
from lakeward.storage.places import AZURE, ObjectPlace
from lakeward.storage.retry import Asking, Taken
from lakeward.storage.underway import Pending
from lakeward.storage.uploads import Uploads

_CHUNK: Final = 16 * 2**20


class ObjectStorage(Storage):
    """Files below a prefix of a bucket or container."""

    is_remote = True

    def __init__(self, root: ObjectPlace, options: StorageOptions) -> None:
        self._place = root
        self._options = options
        self.root = root.uri()
        self._ask = Asking(self.root, options)
        self._clients: dict[str, Any] = {}
        self._uploads = Uploads()
        # Made now, so that a missing library and bad settings are told before anything is done.
        self._client(root)

    def __repr__(self) -> str:
        return f"ObjectStorage({self.root!r})"

    def create(self, path: str, data: Any) -> Pending:
        """Begin to upload a new data file; it is there when what is returned ends."""
        place = self._placed(path)
        reach("stage.file-created")
        return self._uploads.begin(place.uri(), lambda: self._upload(path, place, data))

    def settle(self, paths: Iterable[str]) -> None:
        """Names are as safe as what they name."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file whole, unless another one of that name exists."""
        import obstore

        place = self._placed(path)
        client = self._client(place)
        try:
            self._ask(path, lambda: obstore.put(client, place.key, data, mode="create"))
        except Taken:
            # An earlier try of ours may have been heard and its answer lost.
            return self.read(path) == data
        reach("publish.linked")
        return True

    def put(self, path: str, data: bytes) -> None:
        """Write a file whole, in place of one that may exist."""
        import obstore

        place = self._placed(path)
        self._ask(path, lambda: obstore.put(self._client(place), place.key, data))

    def read(self, path: str) -> bytes:
        """A file's bytes."""
        import obstore

        place = self._arrived(path)
        return self._ask(path, lambda: bytes(obstore.get(self._client(place), place.key).bytes()))

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""
        try:
            self.size(path)
        except FileMissing:
            return False
        return True

    def size(self, path: str) -> int:
        """A file's size in bytes."""
        import obstore

        place = self._arrived(path)
        found = self._ask(path, lambda: obstore.head(self._client(place), place.key))
        return int(found["size"])

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; one that is gone already is fine."""
        import obstore

        by_client: dict[str, tuple[Any, list[str]]] = {}
        for path in paths:
            place = self._arrived(path)
            by_client.setdefault(place.container, (self._client(place), []))[1].append(place.key)
        for client, keys in by_client.values():
            try:
                self._ask(keys[0], partial(obstore.delete, client, keys))
            except FileMissing:
                # Not every store deletes many at once, and then the first missing one ends it.
                for key in keys:
                    with suppress(FileMissing):
                        self._ask(key, partial(obstore.delete, client, key))

    def listing(self, path: str, *, recursive: bool = False) -> Iterator[StoredFile]:
        """The files below a directory, in no order."""
        place = self._placed(path)
        for entry in self._ask(path, lambda: self._entries(place, recursive=recursive)):
            name = entry["path"][len(place.key) :].lstrip("/")
            modified = round(entry["last_modified"].timestamp() * 1000)
            yield StoredFile(f"{path}/{name}" if path else name, entry["size"], modified)

    def make_directory(self, path: str) -> None:
        """There are none; whether the store can be written was seen when it was attached."""
        self._placed(path)

    def directories(self, path: str) -> list[str]:
        """The directories directly below a directory, hidden ones left out."""
        import obstore

        place = self._placed(path)
        found = self._ask(
            path, lambda: obstore.list_with_delimiter(self._client(place), place.key or None)
        )
        names = sorted(p.rstrip("/").rpartition("/")[2] for p in found["common_prefixes"])
        return [f"{path}/{n}" if path else n for n in names if not n.startswith(".")]

    def uri(self, path: str) -> str:
        """The full name, `s3://bucket/…`."""
        return self._placed(path).uri()

    def own(self, name: str) -> str:
        """A full name as this storage spells it."""
        if "://" not in name:
            what = f"The file {name} does not lie on an object store."
            raise UnsupportedFeature(
                what, hint=f"The lake's files lie below {self.root}.", path=name
            )
        return self._placed(name).uri()

    def locate(self, location: str) -> str:
        """A directory as the log keeps it."""
        if not is_full(location):
            return self._placed(location).key[len(self._place.key) :].lstrip("/")
        place = self._placed(location)
        inside = place.path_from(self._place)
        return place.uri() if inside is None else inside

    def arrow_filesystem(self) -> tuple[pa.fs.FileSystem, str]:
        """A filesystem whose paths are full names."""
        return pa.fs.PyFileSystem(ObjectFiles(self.root, "", self._open)), self.root

    def scheme_filesystem(self, scheme: str) -> pa.fs.FileSystem | None:
        """A filesystem whose paths are full names without their scheme."""
        return pa.fs.PyFileSystem(ObjectFiles(self.root, f"{scheme}://", self._open))

    def delta_options(self) -> dict[str, str]:
        """The options as delta-rs spells them."""
        return spelling.for_delta(self._options)

    def iceberg_properties(self) -> dict[str, str]:
        """The options as pyiceberg spells them."""
        return spelling.for_iceberg(self._options)

    def spark_conf(self) -> dict[str, str]:
        """The options as Spark spells them."""
        return spelling.for_spark(self._options)

    def is_put_refused(self, path: str) -> bool:
        """Put a small file if it is absent; whether that was refused.

        It is refused where the file exists, and to credentials that may read and not write.

        Raises:
            StorageError: The store cannot be used at all.
        """
        import obstore

        place = self._placed(path)
        client = self._client(place)
        try:
            self._ask(path, lambda: obstore.put(client, place.key, b"\n", mode="create"))
        except Taken:
            return True
        except StorageError as error:
            if not error.facts.get("denied"):
                raise
            self._ask(path, lambda: obstore.list_with_delimiter(client, place.key))
            return True
        return False

    def _upload(self, path: str, place: ObjectPlace, data: Any) -> None:
        import obstore

        client = self._client(place)
        # Arrow's buffers are of signed bytes, which the library does not take.
        view = obstore.Bytes(memoryview(data).cast("B"))
        # Names of data files are nobody else's, so the same bytes may be put again.
        self._ask(path, lambda: obstore.put(client, place.key, view, chunk_size=_CHUNK))
        reach("stage.file-written")

    def _entries(self, place: ObjectPlace, *, recursive: bool) -> list[Any]:
        import obstore

        client, prefix = self._client(place), place.key or None
        if recursive:
            return [entry for chunk in obstore.list(client, prefix) for entry in chunk]
        return list(obstore.list_with_delimiter(client, prefix)["objects"])

    def _open(self, name: str) -> ObjectFile:
        import obstore

        place = self._arrived(name)
        client = self._client(place)

        def fetch(start: int, end: int) -> Any:
            return self._ask(
                name, lambda: obstore.get_range(client, place.key, start=start, end=end)
            )

        if self._options.provider == AZURE:
            # Azure gives no file's end without its size.
            return ObjectFile(self.size(name), b"", fetch)
        size, tail = self._ask(name, lambda: _end(client, place.key))
        return ObjectFile(size, tail, fetch)

    def _arrived(self, path: str) -> ObjectPlace:
        """Where a path leads, once nothing is on its way there."""
        place = self._placed(path)
        self._uploads.wait(place.uri())
        return place

    def _placed(self, path: str) -> ObjectPlace:
        """Where a path leads: below the root, or to a full name on the same kind of store."""
        if not is_full(path):
            return self._place.below(path)
        if "://" not in path:
            what = f"{path} is a path of this machine; the warehouse is {self.root}."
            raise InvalidInput(what, hint="Give a place on the same store.", path=path)
        place = ObjectPlace.parse(path)
        if place.provider != self._place.provider:
            what = f"{path} lies on another kind of store than the warehouse {self.root}."
            raise UnsupportedFeature(what, hint="Give a place on the same store.", path=path)
        if place.account is None or self._place.account is None:
            account = self._place.account
            place = ObjectPlace(place.provider, place.container, place.key, account)
        elif place.account != self._place.account:
            what = f"{path} lies in another account than the warehouse {self.root}."
            raise UnsupportedFeature(what, hint="Its credentials are not known.", path=path)
        return place

    def _client(self, place: ObjectPlace) -> Any:
        found = self._clients.get(place.container)
        if found is None:
            found = clients.client(place, self._options)
            self._clients[place.container] = found
        return found


def _end(client: Any, key: str) -> tuple[int, Any]:
    """A file's size and its last bytes."""
    import obstore

    found = obstore.get(client, key, options={"range": {"suffix": TAIL}})
    return int(found.meta["size"]), bytes(found.bytes())
