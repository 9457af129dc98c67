"""Runs the service until it is asked to stop, and then finishes the requests that are under way.

This is the only module of `web` that can be imported without the extra `server`.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import orjson

from lakeward.errors import InvalidInput, MissingExtra, StorageError
from lakeward.model.roles import Role
from lakeward.web.settings import Settings, check_binding

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from lakeward.lake.lake import Lake

HANDED_OVER: Final = "LAKEWARD_SERVE"
"""The environment variable by which worker processes get what they serve."""
_NEEDED: Final = ("fastapi", "jinja2", "uvicorn")
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
    """Serve a lake in this process until SIGINT or SIGTERM; requests under way are finished.

    Args:
        lake: The lake.
        target: The path or URL that the lake was opened with.
        settings: Address, access and limits of the service.
        started: Called with the address once it listens.

    Raises:
        InvalidInput: The settings would let others in without a token.
        StorageError: The address cannot be listened on.
        MissingExtra: The extra `server` is not installed.
    """
    check_installed()
    check_binding(lake, settings)
    from lakeward.web.app import application

    servers: list[Any] = []
    app = application(
        lake, target, settings, stopping=lambda: any(server.should_exit for server in servers)
    )
    config = _config(app, settings)
    socket = _bound(config, settings)
    port = socket.getsockname()[1]
    name = f"[{settings.host}]" if ":" in settings.host else settings.host
    if started is not None:
        started(f"http://{name}:{port}")
    import uvicorn

    server = uvicorn.Server(config)
    servers.append(server)
    _until_signalled(lambda: server.run(sockets=[socket]))


def serve_by_workers(target: str, warehouse: str | None, settings: Settings, workers: int) -> None:
    """Serve a lake by several processes, each of which opens it; for a store on a server.

    Raises:
        InvalidInput: The store is a file of this machine, or the settings let others in.
    """
    check_installed()
    if "://" not in target:
        what = "Several workers need a store on PostgreSQL: a SQLite store has one writer anyway."
        raise InvalidInput(what, hint="Leave out --workers.")
    from lakeward.lake.lake import Lake

    with Lake(target, warehouse=warehouse, create=False) as lake:
        check_binding(lake, settings)
    anonymous = None if settings.anonymous is None else settings.anonymous.value
    handed = {
        "target": target,
        "warehouse": warehouse,
        "settings": {
            "host": settings.host,
            "port": settings.port,
            "anonymous": anonymous,
            "public_name": settings.public_name,
        },
    }
    os.environ[HANDED_OVER] = orjson.dumps(handed).decode()
    import uvicorn

    _until_signalled(
        lambda: uvicorn.run(
            "lakeward.web.serving:from_environment",
            factory=True,
            workers=workers,
            host=settings.host,
            port=settings.port,
            **_options(),
        )
    )


def from_environment() -> ASGIApp:
    """The application of a worker process."""
    from lakeward.lake.lake import Lake
    from lakeward.web.app import application

    handed = orjson.loads(os.environ[HANDED_OVER])
    anonymous = handed["settings"].pop("anonymous")
    chosen = Settings(
        **handed["settings"], anonymous=None if anonymous is None else Role(anonymous)
    )
    lake = Lake(handed["target"], warehouse=handed["warehouse"], create=False)
    return application(lake, handed["target"], chosen)


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


def _config(app: ASGIApp, settings: Settings) -> Any:
    import uvicorn

    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return uvicorn.Config(app, host=settings.host, port=settings.port, **_options())


def _bound(config: Any, settings: Settings) -> Any:
    """The socket that the service listens on; uvicorn would end the process if it is taken."""
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
    """Run a server of uvicorn, which raises the signal again that has ended it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run()
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
