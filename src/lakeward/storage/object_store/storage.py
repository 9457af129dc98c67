"""A warehouse on an object store: S3, Azure or GCS.

A file is whole and durable when the store has responded; there are no directories to make and no
names to sync. Requests are retried with growing pauses. The response to a conditional put may be
lost and the put retried: if the name is then taken by a file with the same bytes, the put counts as
successful.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs

from lakeward.errors import (
    FileMissing,
    InvalidInput,
    MissingExtra,
    StorageError,
    UnsupportedFeature,
)
from lakeward.model.cache import Cache
from lakeward.model.file import is_full
from lakeward.model.steps import reach
from lakeward.storage.base import Pending, Storage, StoredFile
from lakeward.storage.object_store.cache import RangeCache, is_written_once, opened_by
from lakeward.storage.object_store.engine_options import for_delta, for_iceberg, for_spark
from lakeward.storage.object_store.files import TAIL, ObjectFile, ObjectFiles, Uploads
from lakeward.storage.object_store.options import StorageOptions
from lakeward.storage.object_store.places import AZURE, S3, ObjectPlace
from lakeward.storage.object_store.retry import RETRY_SECONDS, SHARE, NameTaken, Requests
from lakeward.storage.object_store.signing import Signer, signer_of

_CHUNK: Final = 16 * 2**20
_CLASSES: Final = {S3: "S3Store", AZURE: "AzureStore"}
_RETRIES: Final = 10
_PIECES: Final = 4
"""How many pieces of a copied file are in memory at once."""
_MOST_PIECES: Final = 9_000
"""S3 takes at most 10,000 pieces for a file."""


class ObjectStorage(Storage):
    """Files below a prefix of a bucket or container."""

    is_remote = True

    def __init__(self, root: ObjectPlace, options: StorageOptions) -> None:
        self._place = root
        self._options = options
        self.root = root.uri()
        self._request = Requests(self.root, options)
        self._clients: dict[str, Any] = {}
        self._uploads = Uploads()
        self._cache: RangeCache | None = None
        # Fail now where the library is missing or settings are wrong.
        self._client(root)

    def __repr__(self) -> str:
        return f"ObjectStorage({self.root!r})"

    def beside(self, place: str) -> ObjectStorage | None:
        """Return the storage of another place with the same options; None if it needs others."""
        try:
            return ObjectStorage(self._place_of(place), self._options)
        except UnsupportedFeature:
            return None

    def create(self, path: str, data: Any) -> Pending:
        """Begin to upload a new data file in the background."""
        place = self._place_of(path)
        reach("stage.file-created")
        return self._uploads.begin(place.uri(), lambda: self._upload(path, place, data))

    def copy_from(self, path: str, source: Path) -> None:
        """Copy a file of this machine to a new file, in pieces, with bounded memory.

        The file has its name when all pieces have arrived. After an error there is no part of it.
        """
        import obstore

        place = self._place_of(path)
        client = self._client(place)
        piece = max(_CHUNK, -(-source.stat().st_size // _MOST_PIECES))
        self._request(
            path,
            lambda: obstore.put(
                client, place.key, source, chunk_size=piece, max_concurrency=_PIECES
            ),
        )

    def sync_names(self, paths: Iterable[str]) -> None:
        """Do nothing: an object store has no names apart from files."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole file; return False if the name is taken by a file with other bytes."""
        import obstore

        place = self._place_of(path)
        client = self._client(place)
        try:
            self._request(path, lambda: obstore.put(client, place.key, data, mode="create"))
        except NameTaken:
            # An earlier try of ours may have succeeded and its answer been lost.
            return self.read(path) == data
        reach("publish.linked")
        return True

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file; replace a file of that name, if there is one."""
        import obstore

        place = self._place_of(path)
        self._request(path, lambda: obstore.put(self._client(place), place.key, data))

    def read(self, path: str) -> bytes:
        """Return the bytes of a file, after an upload of it has ended."""
        import obstore

        place = self._uploaded(path)
        return self._request(
            path, lambda: bytes(obstore.get(self._client(place), place.key).bytes())
        )

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""
        try:
            self.size(path)
        except FileMissing:
            return False
        return True

    def size(self, path: str) -> int:
        """Return the size of a file in bytes, after an upload of it has ended."""
        import obstore

        place = self._uploaded(path)
        found = self._request(path, lambda: obstore.head(self._client(place), place.key))
        return int(found["size"])

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; a missing one is no error."""
        import obstore

        by_client: dict[str, tuple[Any, list[str]]] = {}
        for path in paths:
            place = self._uploaded(path)
            by_client.setdefault(place.container, (self._client(place), []))[1].append(place.key)
        for client, keys in by_client.values():
            try:
                self._request(keys[0], partial(obstore.delete, client, keys))
            except FileMissing:
                # Some stores delete one by one, and the first missing file ends that.
                for key in keys:
                    with suppress(FileMissing):
                        self._request(key, partial(obstore.delete, client, key))

    def listing(self, path: str, *, recursive: bool = False) -> Iterator[StoredFile]:
        """Yield the files below a directory, in no order."""
        place = self._place_of(path)
        for entry in self._request(path, lambda: self._entries(place, recursive=recursive)):
            name = entry["path"][len(place.key) :].lstrip("/")
            modified = round(entry["last_modified"].timestamp() * 1000)
            yield StoredFile(f"{path}/{name}" if path else name, entry["size"], modified)

    def make_directory(self, path: str) -> None:
        """Only check the path: an object store has no directories."""
        self._place_of(path)

    def directories(self, path: str) -> list[str]:
        """Return the directories directly below a directory, without hidden ones."""
        import obstore

        place = self._place_of(path)
        found = self._request(
            path, lambda: obstore.list_with_delimiter(self._client(place), place.key or None)
        )
        names = sorted(p.rstrip("/").rpartition("/")[2] for p in found["common_prefixes"])
        return [f"{path}/{n}" if path else n for n in names if not n.startswith(".")]

    def uri(self, path: str) -> str:
        """Return the full name, such as `s3://bucket/…`."""
        return self._place_of(path).uri()

    def path_of(self, name: str) -> str:
        """Return a full name with the scheme that this storage uses."""
        if "://" not in name:
            what = f"The file {name} does not lie on an object store."
            raise UnsupportedFeature(
                what, hint=f"The lake's files lie below {self.root}.", path=name
            )
        return self._place_of(name).uri()

    def locate(self, location: str) -> str:
        """Return a location as the log stores it: relative if below the warehouse, else its URI."""
        if not is_full(location):
            return self._place_of(location).key[len(self._place.key) :].lstrip("/")
        place = self._place_of(location)
        inside = place.path_from(self._place)
        return place.uri() if inside is None else inside

    def arrow_filesystem(self, *, foreign: bool = False) -> tuple[pa.fs.FileSystem, str]:
        """Return a pyarrow filesystem whose paths are URLs, and the URL of the root."""
        opener = partial(self._open, foreign=foreign)
        return pa.fs.PyFileSystem(ObjectFiles(self.root, opener)), self.root

    def use_cache(self, asked: Cache | None, count: Callable[[str, int], None]) -> None:
        """Cache the byte ranges that pyarrow reads, such as footers; None turns the cache off."""
        self._cache = None if asked is None else RangeCache(asked, count)

    def delta_options(self) -> dict[str, str]:
        """Return the options by delta-rs' names."""
        return for_delta(self._options)

    def iceberg_properties(self) -> dict[str, str]:
        """Return the options by pyiceberg's names."""
        return for_iceberg(self._options)

    def spark_conf(self) -> dict[str, str]:
        """Return the options by Spark's names."""
        return for_spark(self._options)

    def signer(self) -> Signer | None:
        """Return the signer of S3 requests; None unless the warehouse is on S3 and has a key."""
        return signer_of(self._options, self._place)

    def is_put_refused(self, path: str) -> bool:
        """Put a small file if it is absent; return whether the store refused the put.

        The store refuses it if the file exists, or if the credentials are read-only.
        """
        import obstore

        place = self._place_of(path)
        client = self._client(place)
        try:
            self._request(path, lambda: obstore.put(client, place.key, b"\n", mode="create"))
        except NameTaken:
            return True
        except StorageError as error:
            if not error.facts.get("denied"):
                raise
            self._request(path, lambda: obstore.list_with_delimiter(client, place.key))
            return True
        return False

    def _upload(self, path: str, place: ObjectPlace, data: Any) -> None:
        import obstore

        client = self._client(place)
        # obstore does not take signed bytes, which Arrow's buffers have.
        view = obstore.Bytes(memoryview(data).cast("B"))
        # A data file's name is unique, so a retry can only put the same bytes.
        self._request(path, lambda: obstore.put(client, place.key, view, chunk_size=_CHUNK))
        reach("stage.file-written")

    def _entries(self, place: ObjectPlace, *, recursive: bool) -> list[Any]:
        import obstore

        client, prefix = self._client(place), place.key or None
        if recursive:
            return [entry for chunk in obstore.list(client, prefix) for entry in chunk]
        return list(obstore.list_with_delimiter(client, prefix)["objects"])

    def _open(self, name: str, *, foreign: bool) -> ObjectFile:
        import obstore

        place = self._uploaded(name)
        client = self._client(place)

        def fetch(start: int, end: int) -> Any:
            return self._request(
                name, lambda: obstore.get_range(client, place.key, start=start, end=end)
            )

        def end() -> tuple[int, bytes]:
            if self._options.provider != AZURE:
                return self._request(name, lambda: _end(client, place.key))
            # Azure has no requests for a file's end.
            size = self.size(name)
            return size, bytes(fetch(max(0, size - TAIL), size)) if size else b""

        if self._cache is None:
            return ObjectFile(*end(), fetch)
        tag = ""
        if foreign or not is_written_once(place.key):
            about = self._request(name, lambda: obstore.head(client, place.key))
            if about["e_tag"] is None:
                # Two versions of the file could have the same size and the same second.
                return ObjectFile(*end(), fetch)
            tag = f"{about['e_tag']} {about['last_modified']} {about['size']}"
        return opened_by(self._cache, f"{place.uri()} {tag}", end, fetch)

    def _uploaded(self, path: str) -> ObjectPlace:
        """Return the place of a path, after waiting for an upload to it."""
        place = self._place_of(path)
        self._uploads.wait(place.uri())
        return place

    def _place_of(self, path: str) -> ObjectPlace:
        """Return the place of a path below the root, or of a full name on the same store."""
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
            found = _new_client(place, self._options)
            self._clients[place.container] = found
        return found


def _end(client: Any, key: str) -> tuple[int, Any]:
    """Return the size and the last bytes of a file."""
    import obstore

    found = obstore.get(client, key, options={"range": {"suffix": TAIL}})
    return int(found.meta["size"]), bytes(found.bytes())


def _new_client(place: ObjectPlace, options: StorageOptions) -> Any:
    """Return a client of obstore for the bucket or container of a place."""
    try:
        from obstore import store
    except ImportError as error:
        what = f"A warehouse on {place.uri().partition('://')[0]}:// needs obstore."
        hint = f"Run: pip install 'lakeward[{place.provider}]'."
        raise MissingExtra(what, hint=hint) from error
    kind = getattr(store, _CLASSES.get(place.provider, "GCSStore"))
    settings = options.store_settings()
    if place.account is not None:
        settings["account_name"] = place.account
    try:
        return kind(
            place.container,
            client_options=options.client_settings(),
            retry_config={
                "max_retries": options.number("max_retries", _RETRIES),
                "retry_timeout": options.span("retry_timeout", RETRY_SECONDS) / SHARE,
                "backoff": {
                    "init_backoff": timedelta(milliseconds=50),
                    "max_backoff": timedelta(seconds=5),
                    "base": 2,
                },
            },
            **settings,
        )
    except Exception:  # noqa: BLE001  its message quotes the settings
        what = f"The storage options do not fit a warehouse on {place.uri()}."
        hint = f"Settings given: {', '.join(sorted(options.values)) or 'none'}."
        raise InvalidInput(what, hint=hint) from None
