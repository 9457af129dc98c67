"""Every page of the dashboard: found by its links, safe from hostile texts, also as JSON."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Generator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation
from lakeward.lake.records import LineageEdge
from lakeward.model.lineage.graph import EdgeKind, LineageNode, NodeKind
from lakeward.model.records import to_json
from lakeward.web.charts import line
from lakeward.web.lineage import drawing
from lakeward.web.pages.rendering import environment
from tests.support.rest import totals
from tests.support.service import Service, orders

SCRIPT = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>"
BROWSER = {"accept": "text/html,application/xhtml+xml"}


class Links(HTMLParser):
    """The links of a page, and what a strict policy forbids in one."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.outside: list[str] = []
        self.forbidden: list[str] = []
        self.titles: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        for name, value in attrs:
            if name.startswith("on") or name == "style" or "javascript:" in (value or ""):
                self.forbidden.append(f"{tag} {name}={value}")
            if name in ("href", "src", "action", "hx-get") and value:
                (self.found if value.startswith(("/", "#", "?")) else self.outside).append(value)

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style") and data.strip():
            self.forbidden.append(data)
        self._inside = ""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """A service of a lake where every text that a user can choose holds a script."""
    with lw.open(tmp_path_factory.mktemp("pages") / "lake", actor=SCRIPT) as lake:
        schema = pa.schema(
            [
                pa.field("id", pa.int64(), metadata={"comment": SCRIPT}),
                pa.field("<b>name</b>", pa.string()),
            ]
        )
        lake.create(
            "bad.names",
            schema,
            comment=SCRIPT,
            properties={"note": SCRIPT},
            constraints={"harmless": "id > 0 and id <> 99"},
        )
        lake.create("bad.empty", "id int64", format="iceberg")
        table = lake.table("bad.names")
        with lake.transaction(message=SCRIPT) as tx:
            tx.append("bad.names", pa.table({"id": [1, 2], "<b>name</b>": [SCRIPT, None]}))
            tx.append("bad.empty", pa.table({"id": [1]}))
        with pytest.raises(ConstraintViolation):
            table.append(pa.table({"id": [99], "<b>name</b>": [SCRIPT]}))
        table.append(pa.table({"id": [3], "<b>name</b>": ["plain"]}))
        table.alter(message=SCRIPT).add_column("more", "string").commit()
        table.optimize()
        lake.tag("month-end", message=SCRIPT)
        lake.set_policy("bad.*", {"target_file_size": "32mb"}, message=SCRIPT)
        held = lake.transaction(message=SCRIPT, locks={"bad.empty": "write"})
        with held, Service(lake, anonymous=None) as service:
            yield service


def test_every_link_leads_to_a_page_that_is_safe(hostile: Service) -> None:
    client = hostile.as_("admin", name="looker")
    seen: dict[str, httpx.Response] = {}
    ahead = ["/", "/tables/bad.names/compare?from=0&to=3&rows=true", "/search?q=a"]
    while ahead:
        path = ahead.pop().partition("#")[0]
        if not path or path in seen or path.startswith("/static") or path.endswith("/logout"):
            continue
        answer = seen[path] = client.get(path, headers=BROWSER)
        assert answer.status_code == 200, f"{path}: {answer.text[:500]}"
        if answer.headers["content-type"].startswith("text/html"):
            links = Links(answer.text)
            assert links.forbidden == [], path
            assert links.outside == [], path
            assert "<script>alert" not in answer.text, path
            assert "<img" not in answer.text, path
            assert "<b>" not in answer.text, path
            assert str(hostile.lake.warehouse) not in answer.text, path
            found = [urljoin(path, link) for link in links.found if "/optimize" not in link]
            ahead += [link for link in found if not link.endswith("/login")]
    pages = {p.partition("?")[0] for p in seen}
    assert {"/", "/health", "/transactions", "/jobs", "/audit", "/quality", "/search"} <= pages
    assert {"/streams", "/alerts"} <= pages
    tabs = (
        "",
        "/compare",
        "/schema",
        "/policy",
        "/rows",
        "/layout",
        "/health",
        "/lineage",
        "/quality",
    )
    assert {f"/tables/bad.names{tab}" for tab in tabs} <= pages
    # The texts are there, escaped.
    assert all(
        "&lt;script&gt;" in seen[f"/tables/bad.names{tab}"].text for tab in ("", "/schema", "/rows")
    )


def test_every_page_is_also_json(shared: Service) -> None:
    client, lake = shared.as_("reader"), shared.lake
    path = "/tables/sales.orders"

    by_query = client.get("/?format=json").json()
    by_header = client.get(path, headers={"accept": "application/json"}).json()
    rows = client.get(f"{path}/rows", params={"format": "json", "where": "id = 4"}).json()

    assert [t["name"] for t in by_query["tables"]] == [t.name for t in lake.tables()]
    assert by_header["versions"] == to_json(lake.table("sales.orders").history())
    assert [row["id"] for row in rows["page"]["rows"]] == [4]


def test_a_page_shows_what_the_lake_has(shared: Service) -> None:
    client = shared.as_("reader")

    def text(path: str) -> str:
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", client.get(path, headers=BROWSER).text))

    assert "sales.orders delta 2 5 " in text("/")
    assert "2 tables together" in text("/tables/sales.orders")
    compared = text("/tables/sales.orders/compare?from=1&to=2&rows=true")
    assert "+2 inserted, 0 updated" in compared
    assert "2 inserted, 0 changed, 0 deleted" in compared
    assert "positive amount &gt; 0" in text("/tables/sales.orders/policy")
    assert "region=eu" in text("/tables/sales.orders/health")
    assert "column amount of sales.orders" in text("/search?q=amou")
    assert "No table is locked" in text("/transactions")


def test_pages_need_a_token_and_lead_back_to_what_was_asked(shared: Service) -> None:
    token = shared.lake.create_token("person", tables="sales.*")
    client = shared.client(follow_redirects=False)
    asked = "/tables/sales.orders/rows?version=1"

    sent = client.get(asked, headers=BROWSER)
    wrong = client.post("/login", data={"token": "nonsense"})
    signed = client.post("/login", data={"token": token.secret, "next": asked})

    assert sent.status_code == 303
    assert sent.headers["location"].startswith("/login?next=%2Ftables%2Fsales.orders")
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    assert signed.headers["location"] == asked
    cookie = signed.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get(asked, headers=BROWSER).status_code == 200
    assert "gold" not in client.get("/", headers=BROWSER).text
    client.post("/logout")
    assert client.get(asked, headers=BROWSER).status_code == 303


@pytest.mark.parametrize("place", ["//evil.example", "/\\evil.example", "http://evil.example", "x"])
def test_signing_in_leads_to_no_other_site(shared: Service, place: str) -> None:
    token = shared.lake.create_token()
    client = shared.client(follow_redirects=False)

    signed = client.post("/login", data={"token": token.secret, "next": place})

    assert signed.headers["location"] == "/"


def test_the_button_packs_files_for_those_who_may(own: Service) -> None:
    for number in range(4):
        own.lake.table("sales.orders").append(orders(50 + number))
    before = own.lake.table("sales.orders").totals().files
    page = "/tables/sales.orders/health"

    assert "Optimize now" not in own.as_("reader").get(page, headers=BROWSER).text
    assert "Optimize now" in own.as_("admin").get(page, headers=BROWSER).text
    assert own.as_("writer").post("/tables/sales.orders/optimize").status_code == 403
    done = own.as_("admin", name="keeper").post("/tables/sales.orders/optimize")
    assert done.status_code == 303
    assert own.lake.table("sales.orders").totals().files < before
    assert own.lake.jobs()[0].actor == "keeper"


def test_a_problem_is_a_page_for_people(shared: Service) -> None:
    answer = shared.as_("reader").get("/tables/none", headers=BROWSER)

    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "Table not found" in answer.text


def test_files_of_pages_are_the_only_ones(shared: Service) -> None:
    client = shared.client()

    assert client.get("/static/dashboard.css").headers["content-type"].startswith("text/css")
    for name in ("..%2fapp.py", "app.py", "licenses", "..%2f..%2f..%2fetc%2fpasswd"):
        assert client.get(f"/static/{name}").status_code == 404


def test_files_by_size_are_counted_by_the_store(tmp_path: Path, store_url: str) -> None:
    with lw.open(store_url, warehouse=tmp_path / "lake") as lake:
        lake.create("t", "id int64")
        chance = random.Random(1)
        for number in range(3):
            lake.table("t").append(pa.table({"id": [number]}))
        lake.table("t").append(pa.table({"id": [chance.getrandbits(60) for _ in range(20_000)]}))
        found = lake.table("t").file_sizes()
        files = lake.table("t").files()

    assert sum(s.files for s in found) == 4
    for one in found:
        of_class = [f for f in files if one.at_least <= f.size < (one.below or 2**62)]
        assert (one.files, one.bytes) == (len(of_class), sum(f.size for f in of_class))
    assert sum(bool(s.files) for s in found) == 2


def test_templates_escape_every_value() -> None:
    assert environment().autoescape is True
    templates = Path(lw.__file__).parent / "web" / "templates"
    unsafe = [
        p.name for p in templates.iterdir() if re.search(r"\|\s*safe|autoescape", p.read_text())
    ]
    assert unsafe == []


@pytest.mark.parametrize("kind", ["newest", "older", "dropped"])
def test_open_pages_learn_that_the_lake_has_changed(own: Service, kind: str) -> None:
    older = own.lake.transaction()
    if kind == "older":
        older.append("sales.orders", orders(76))
        time.sleep(0.002)
        own.lake.table("sales.totals").append(totals(1.0))

    def commit() -> None:
        if kind == "older":
            older.commit()
        elif kind == "dropped":
            own.lake.drop("gold.secret_plans")
        else:
            own.lake.table("sales.orders").append(orders(77))

    with own.as_("reader").stream("GET", "/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines).startswith("retry:")
        commit()
        # A stream without a change has a comment after 15 seconds.
        heard = next(line for line in lines if line.startswith(("event:", ":")))

    assert heard == "event: changed"


def test_lineage_leaves_out_tables_that_are_not_open(own: Service) -> None:
    own.lake.create("gold.sums", "region string, amount float64")
    with own.lake.transaction() as tx:
        tx.sql("INSERT INTO gold.sums SELECT region, sum(amount) FROM sales.orders GROUP BY region")
    every, some = own.as_("reader"), own.as_("reader", tables="gold.*")

    assert "sales.orders" in every.get("/lineage", headers=BROWSER).text
    for path in ("/lineage", "/tables/gold.sums/lineage"):
        assert "sales" not in some.get(path, headers=BROWSER).text
        assert "sales" not in some.get(f"/api/v1{path}").text
    assert "sales.orders" in every.get("/api/v1/tables/gold.sums/lineage").text


def test_a_drawing_places_tables_right_of_their_sources_even_in_a_circle() -> None:
    def edge(source: str, target: str) -> LineageEdge:
        one, other = (LineageNode(NodeKind.TABLE, name) for name in (source, target))
        return LineageEdge(one, other, EdgeKind.VALUE, "WRITE", 1, None, "t")

    found = drawing([edge("a", "b"), edge("b", "c"), edge("a", "c"), edge("c", "a")])

    places = {box.name: box.x for box in found.boxes}
    assert len(set(places.values())) == 3
    assert len(found.arrows) == 4
    assert drawing([]).boxes == ()


def test_quality_is_shown_with_its_series(own: Service) -> None:
    expected = {"expectations": {"few rows": {"measure": "rows", "max": 5}}}
    own.lake.set_policy("sales.orders", expected)
    table = own.lake.table("sales.orders")
    table.quality()
    table.append(orders(50))
    table.quality()
    client = own.as_("reader")

    text = client.get("/tables/sales.orders/quality", headers=BROWSER).text
    records = client.get("/api/v1/tables/sales.orders/quality").json()

    assert "not met" in text
    assert text.count("<polyline") == 4
    assert [(m["name"], m["passed"]) for m in records["measurements"]] == [("few rows", False)]
    growth = client.get("/api/v1/tables/sales.orders/growth").json()["versions"]
    assert [g["rows"] for g in growth][-2:] == [5, 6]


def test_quality_of_the_lake_has_levels_expectations_and_samples_of_violations(
    own: Service,
) -> None:
    lake = own.lake
    for name in ("sales.orders", "gold.secret_plans"):
        lake.set_policy(name, {"expectations": {"few": {"measure": "rows", "max": 4}}})
    # Expectations hold for versions that are committed after they were set.
    lake.table("sales.orders").append(orders(6))
    lake.table("gold.secret_plans").append(pa.table({"id": [1]}))
    lake.table("sales.orders").quality()
    lake.set_service_level(
        "fresh orders", {"objective": "freshness", "table": "sales.orders", "max": "1h"}
    )
    with pytest.raises(ConstraintViolation):
        lake.table("sales.orders").append(orders(-77))

    def text(tables: str) -> str:
        found = own.as_("reader", tables=tables).get("/quality", headers=BROWSER)
        assert found.status_code == 200, found.text
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found.text))

    whole = text("*")
    assert "fresh orders sales.orders" in whole
    assert "not met" in whole
    assert "gold.secret_plans" in whole
    assert "id = -77 , region = eu" in whole
    some = text("gold.*")
    assert "gold.secret_plans" in some
    assert "sales.orders" not in some
    assert "id = -77" not in some


@pytest.mark.parametrize(
    ("values", "points"),
    [
        ([], ""),
        ([None], ""),
        ([1.0], "4.0,44.0"),
        ([0.0, None, 2.0], "4.0,44.0 296.0,4.0"),
    ],
)
def test_lines_go_from_the_smallest_to_the_largest(values: list[float | None], points: str) -> None:
    assert line(values) == points
