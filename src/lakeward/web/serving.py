"""Runs the service until a signal stops it, and then finishes the running requests.

This is the only module of `web` that can be imported without the extra `server`.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import orjson

from lakeward.errors import InvalidInput, MissingExtra, StorageError
from lakeward.model.roles import Role
from lakeward.web.counting_ahead import count_all, counting
from lakeward.web.settings import Settings, check_binding

if TYPE_CHECKING:
    from types import FrameType

    from starlette.types import ASGIApp

    from lakeward.lake.lake import Lake

HANDED_OVER: Final = "LAKEWARD_SERVE"
"""The environment variable that passes the lake and the settings to worker processes."""
_NEEDED: Final = ("fastapi", "jinja2", "jwt", "uvicorn")
_SHUTDOWN_SECONDS: Final = 30
_CONCURRENT: Final = 200


def check_installed() -> None:
    """Raise `MissingExtra` if the libraries of the service are not installed."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        what = f"The service needs {', '.join(missing)}."
        raise MissingExtra(what, hint="pip install 'lakeward[server]'", extra="server")


def serve(
    lake: Lake, target: str, settings: Settings, *, started: Callable[[str], None] | None = None
) -> None:
    """Serve a lake in this process until SIGINT or SIGTERM, and finish running requests.

    Args:
        lake: The lake.
        target: The path or URL that the lake was opened with.
        settings: Address, access and limits of the service.
        started: Called with the address once the service listens.

    Raises:
        InvalidInput: The settings would give other machines access without a token.
        StorageError: The service cannot listen on the address.
        MissingExtra: The extra `server` is not installed.
    """
    check_installed()
    check_binding(lake, settings)
    from lakeward.web.app import application

    servers: list[Any] = []

    def stopping() -> bool:
        return any(server.should_exit for server in servers)

    app = application(lake, target, settings, stopping=stopping)
    config = _config(app, settings)
    socket = _bound(config, settings)
    if started is not None:
        started(_address(socket, settings))
    import uvicorn

    server = uvicorn.Server(config)
    servers.append(server)
    with counting(lake, stopping):
        _until_signalled(lambda: server.run(sockets=[socket]))


def serve_by_workers(
    target: str,
    warehouse: str | None,
    settings: Settings,
    workers: int,
    *,
    log: bool = False,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve a lake with several processes, each of which opens it; for a store on PostgreSQL.

    Args:
        target: The URL of the store.
        warehouse: The warehouse, unless the store has it.
        settings: Address, access and limits of the service.
        workers: How many processes.
        log: Whether each process prints a line for each request.
        started: Called with the address once the service listens.

    Raises:
        InvalidInput: The store is a file of this machine, or the settings would give other machines
            access without a token.
        StorageError: The service cannot listen on the address.
    """
    check_installed()
    if "://" not in target:
        what = "Several workers need a store on PostgreSQL: a SQLite store has one writer anyway."
        raise InvalidInput(what, hint="Leave out --workers.")
    from lakeward.lake.lake import Lake

    with Lake(target, warehouse=warehouse, create=False) as lake:
        check_binding(lake, settings)
    handed = {
        "target": target,
        "warehouse": warehouse,
        "settings": {one.name: getattr(settings, one.name) for one in fields(settings)},
        "log": log,
    }
    os.environ[HANDED_OVER] = orjson.dumps(handed).decode()
    from uvicorn import supervisors

    app = "lakeward.web.serving:from_environment"
    config = _config(app, settings, factory=True, workers=workers)
    with _bound(config, settings) as socket:
        # Worker processes inherit it.
        socket.set_inheritable(True)
        if started is not None:
            started(_address(socket, settings))
        _until_signalled(lambda: supervisors.Multiprocess(config, sockets=[socket]).run())


def from_environment() -> ASGIApp:
    """Return the application of a worker process, with the lake from the environment."""
    from lakeward.lake.lake import Lake
    from lakeward.web.app import application

    handed = orjson.loads(os.environ[HANDED_OVER])
    if handed["log"]:
        log_requests()
    anonymous = handed["settings"].pop("anonymous")
    chosen = Settings(
        **handed["settings"], anonymous=None if anonymous is None else Role(anonymous)
    )
    lake = Lake(handed["target"], warehouse=handed["warehouse"], create=False)
    stopping = _signalled()
    # The process ends without closing the lake.
    threading.Thread(target=count_all, args=(lake, stopping), daemon=True).start()
    return application(lake, handed["target"], chosen, stopping=stopping)


def log_requests() -> None:
    """Print a line for each request of this process."""
    logger = logging.getLogger("lakeward.web")
    logger.setLevel(logging.INFO)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(handler)


def _signalled() -> Callable[[], bool]:
    """Return a function that tells whether this process got a signal that ends its server.

    Uvicorn creates the server of a worker, and sets the handlers of signals before it calls
    `from_environment`.
    """
    got = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        return got.is_set
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)
        if not callable(before):
            continue

        def handle(
            number: int, frame: FrameType | None, before: Callable[..., object] = before
        ) -> None:
            got.set()
            before(number, frame)

        signal.signal(number, handle)
    return got.is_set


def _options() -> dict[str, Any]:
    from lakeward.web.protocol import TimedProtocol

    return {
        # The edge of the service logs each request, under its id.
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "date_header": True,
        "limit_concurrency": _CONCURRENT,
        "timeout_keep_alive": 15,
        "timeout_graceful_shutdown": _SHUTDOWN_SECONDS,
        "h11_max_incomplete_event_size": 32 << 10,
        "http": TimedProtocol,
        "ws": "none",
        "lifespan": "off",
        "proxy_headers": False,
    }


def _config(app: ASGIApp | str, settings: Settings, **more: Any) -> Any:
    import uvicorn

    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return uvicorn.Config(app, host=settings.host, port=settings.port, **_options(), **more)


def _address(socket: Any, settings: Settings) -> str:
    name = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{name}:{socket.getsockname()[1]}"


def _bound(config: Any, settings: Settings) -> Any:
    """Return a listening socket; raise `StorageError` if the address cannot be used.

    Uvicorn would end the process instead.
    """
    import socket

    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    found = socket.socket(family)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((settings.host, settings.port))
    except OSError as error:
        found.close()
        what = f"The service cannot listen on {settings.host}:{settings.port}: {error.strerror}."
        raise StorageError(what, hint="Choose another --port; 0 takes a free one.") from error
    found.listen(config.backlog)
    found.setblocking(False)
    return found


def _until_signalled(run: Callable[[], None]) -> None:
    """Run a uvicorn server; ignore the interrupt that it raises again after a signal ended it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run()
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
