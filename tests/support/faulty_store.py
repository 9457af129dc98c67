"""A proxy before an object store that does what networks and overloaded stores do.

It passes requests on as they are, signatures and all, and asks a function of the test what is to go
wrong with each.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lakeward.model.closing import Closing


class Fault(Enum):
    """What goes wrong with a request; all but the last three never reach the store."""

    INTERNAL = 500
    BAD_GATEWAY = 502
    OVERLOADED = 503
    TOO_MANY = 429
    REFUSED = "the connection is closed before the request is passed on"
    UNHEARD = "nobody answers, and the request is not passed on"
    LATE = "it is done, and nobody answers in time"
    LOST = "it is done, and the connection is closed before the answer"
    TORN = "it is done, and the connection is closed in the middle of the answer"


Decide = Callable[[str, str], Fault | None]
"""What goes wrong with a request, by its method and path."""


class FaultyStore(Closing):
    """A server on this machine that passes requests on to another one."""

    def __init__(self, upstream: int, *, silence_seconds: float = 1.0) -> None:
        """Begin to listen; nothing goes wrong yet.

        Args:
            upstream: The port of the store.
            silence_seconds: How long nobody answers: longer than the client waits.
        """
        self.decide: Decide = lambda _method, _path: None
        self.happened: Counter[Fault] = Counter()
        self.requests = 0
        self._counting = threading.Lock()
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer's head and body in one go, or the client's acknowledgement is waited for.
            wbufsize = -1
            disable_nagle_algorithm = True

            def _handle(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fault = store._decided(self.command, self.path)
                if fault in (Fault.REFUSED, Fault.UNHEARD):
                    time.sleep(silence_seconds if fault is Fault.UNHEARD else 0)
                    self._hang_up()
                elif fault is not None and isinstance(fault.value, int):
                    self._answer(fault.value, [("Content-Length", "0")], b"")
                else:
                    self._pass_on(upstream, body, fault, silence_seconds)

            def _pass_on(self, port: int, body: bytes, fault: Fault | None, silence: float) -> None:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                try:
                    connection.putrequest(
                        self.command, self.path, skip_host=True, skip_accept_encoding=True
                    )
                    for name, value in self.headers.items():
                        connection.putheader(name, value)
                    connection.endheaders(body)
                    found = connection.getresponse()
                    data = found.read()
                    headers = [
                        (n, v) for n, v in found.getheaders() if n.lower() != "transfer-encoding"
                    ]
                finally:
                    connection.close()
                if self.command != "HEAD" and found.status != http.HTTPStatus.NO_CONTENT:
                    headers = [h for h in headers if h[0].lower() != "content-length"]
                    headers.append(("Content-Length", str(len(data))))
                match fault:
                    case None:
                        self._answer(found.status, headers, data)
                    case Fault.TORN:
                        self._answer(found.status, headers, data[: len(data) // 2])
                        self._hang_up()
                    case _:
                        time.sleep(silence if fault is Fault.LATE else 0)
                        self._hang_up()

            def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
                self.wfile.flush()

            def _hang_up(self) -> None:
                self.close_connection = True
                with suppress(OSError):
                    self.wfile.flush()
                    self.connection.shutdown(socket.SHUT_RDWR)

            def log_message(self, *_: Any) -> None:
                pass

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def _decided(self, method: str, path: str) -> Fault | None:
        with self._counting:
            self.requests += 1
            fault = self.decide(method, path)
            if fault is not None:
                self.happened[fault] += 1
            return fault

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Those who were hung up on are not waited for.
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """A client that is gone is what these tests are about."""
