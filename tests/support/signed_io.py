"""A FileIO of pyiceberg that reaches S3 without credentials: the catalog signs each request.

pyiceberg's own one needs s3fs; this one uses pyiceberg's signer, and sends requests by itself.
"""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import httpx
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.io.fsspec import S3V4RestSigner


class _Headers(dict[str, str]):
    def add_header(self, name: str, value: str) -> None:
        self[name] = value


class SignedIO(FileIO):
    """Reads and writes files of `s3://` by signed requests."""

    def send(self, method: str, location: str, content: bytes = b"") -> httpx.Response:
        address = f"{self.properties['s3.endpoint']}/{location.removeprefix('s3://')}"
        region = self.properties["s3.region"]
        request = SimpleNamespace(
            method=method, url=address, headers=_Headers(), context={"client_region": region}
        )
        S3V4RestSigner(self.properties)(request)
        answer = httpx.request(
            method, request.url, headers=dict(request.headers), content=content, timeout=60
        )
        answer.raise_for_status()
        return answer

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self)

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.send("DELETE", location if isinstance(location, str) else location.location)


class _Input(InputFile):
    def __init__(self, location: str, by: SignedIO) -> None:
        super().__init__(location)
        self._by = by

    def __len__(self) -> int:
        return int(self._by.send("HEAD", self.location).headers["content-length"])

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> Any:
        del seekable
        return io.BytesIO(self._by.send("GET", self.location).content)


class _Buffer(io.BytesIO):
    def __init__(self, out: _Output) -> None:
        super().__init__()
        self._out = out

    def close(self) -> None:
        if not self.closed:
            self._out.by.send("PUT", self._out.location, self.getvalue())
        super().close()


class _Output(OutputFile):
    def __init__(self, location: str, by: SignedIO) -> None:
        super().__init__(location)
        self.by = by

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return False

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self.by)

    def create(self, overwrite: bool = False) -> Any:
        del overwrite
        return _Buffer(self)
