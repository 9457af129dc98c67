"""Renders records as an HTML page for people, or as JSON for programs.

Templates get the JSON form of records, in which paths and secrets are hidden, and escape every
value. Pages have no inline scripts and styles, only links to files of the service.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from fastapi import Request, Response

from lakeward.lake.records import TableDetails
from lakeward.model.records import to_json
from lakeward.web.answers import answer, hiding_of
from lakeward.web.pages.viewed import remember

if TYPE_CHECKING:
    from jinja2 import Environment

    from lakeward.web.access import Caller

HTML: Final = "text/html; charset=utf-8"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def page(
    request: Request,
    template: str,
    records: dict[str, Any],
    *,
    verbatim: dict[str, Any] | None = None,
) -> Response:
    """Return a page, or with `?format=json` or `Accept: application/json` its records.

    A page of a table is remembered in the browser as viewed.

    Args:
        request: The request.
        template: The name of the template, without its extension.
        records: The records that the page shows, by name; paths and secrets in them are hidden.
        verbatim: Rows of tables, by name, which are shown as they are.
    """
    shown = {**hiding_of(request).deeply(to_json(records)), **to_json(verbatim or {})}
    if wants_json(request):
        return answer(request, shown)
    response = Response(rendered(request, template, shown), media_type=HTML)
    if isinstance(table := records.get("table"), TableDetails):
        remember(request, response, table.name)
    return response


def rendered(request: Request, template: str, shown: dict[str, Any]) -> str:
    """Return the HTML text of a page."""
    caller: Caller | None = getattr(request.state, "caller", None)
    known = caller if caller is not None and caller.role is not None else None
    return (
        environment()
        .get_template(f"{template}.html")
        .render(
            **shown,
            path=request.url.path,
            query=dict(request.query_params),
            caller=None if known is None else {"name": known.name, "role": known.role},
        )
    )


def wants_json(request: Request) -> bool:
    """Return whether a request asks for records as JSON instead of a page."""
    if request.query_params.get("format") == "json":
        return True
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def wants_page(request: Request) -> bool:
    """Return whether a request comes from a browser, so that an error is shown as a page."""
    is_program = request.url.path.startswith(("/api/", "/iceberg/"))
    return not is_program and "text/html" in request.headers.get("accept", "")


@cache
def environment() -> Environment:
    """Return the Jinja environment with the templates and their filters."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("lakeward.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Templates are files of the package, so they do not change while the service runs.
        auto_reload=False,
    )
    made.filters.update(size=size, count=count, moment=moment, ago=ago, part=part, value=value)
    made.globals["link"] = link
    return made


def size(number: float | None) -> str:
    """Return a number of bytes with its unit, such as `1.5 MiB`."""
    if number is None:
        return "unknown"
    left = float(number)
    for unit in _UNITS:
        if left < 1024 or unit == _UNITS[-1]:
            return f"{left:.1f}".removesuffix(".0") + f" {unit}"
        left /= 1024
    raise AssertionError


def count(number: float | None) -> str:
    """Return a number with thousands separators."""
    return "unknown" if number is None else f"{number:,}"


def moment(text: str | None) -> str:
    """Return an ISO 8601 time as date and time in UTC, to the second."""
    if text is None:
        return ""
    return datetime.fromisoformat(text).astimezone(UTC).isoformat(" ", "seconds")[:19]


def ago(text: str | None) -> str:
    """Return how long ago an ISO 8601 time was, in the largest fitting unit: `3 h ago`."""
    if text is None:
        return ""
    seconds = max(0, int((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()))
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def part(text: object) -> str:
    """Return a name quoted as a part of a URL path."""
    return quote(str(text), safe="")


def value(found: Any) -> str:
    """Return a value of a row as text; the template shows null and empty text differently."""
    return found if isinstance(found, str) else str(found)


def link(path: str, **query: Any) -> str:
    """Return a URL with the query values that are not None."""
    given = {name.rstrip("_"): v for name, v in query.items() if v is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path
