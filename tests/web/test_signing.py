"""Remote signing: clients without credentials reach the files of their tables, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Generator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import lakeward as lw
from lakeward.storage.object_store.sigv4 import Key, signature_headers
from tests.support.s3 import SECRET, S3Server
from tests.support.service import Service

SIGN = "/iceberg/v1/aws/s3/sign"
DELEGATION = "X-Iceberg-Access-Delegation"
LOADED = "/iceberg/v1/namespaces/sales/tables/totals"


@pytest.fixture(scope="module")
def on_s3(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """A service whose warehouse is on S3, with an Iceberg and a Delta table and a dropped one."""
    with lw.open(
        tmp_path_factory.mktemp("signing") / "lake",
        warehouse=f"s3://{s3_server.bucket()}/wh",
        storage_options=s3_server.options(),
    ) as lake:
        for name in ("sales.totals", "gold.plans", "sales.gone"):
            lake.create(name, "n int64", format="iceberg").append(pa.table({"n": [1]}))
        lake.create("sales.delta", "n int64", format="delta").append(pa.table({"n": [1]}))
        lake.drop("sales.gone")
        with Service(lake, anonymous=None) as service:
            yield service


def _address(service: Service, server: S3Server, path: str) -> str:
    return f"{server.endpoint}/{service.lake.warehouse.removeprefix('s3://')}/{path}"


def _asked(method: str, uri: str, **more: Any) -> dict[str, Any]:
    return {"method": method, "uri": uri, "region": "us-east-1", "headers": {}, **more}


def _sent(client: httpx.Client, asked: dict[str, Any], content: bytes = b"") -> httpx.Response:
    """The answer of S3 to a request that the service has signed."""
    answer = client.post(SIGN, json=asked)
    assert answer.status_code == 200, answer.text
    signed = answer.json()
    given = {name: ",".join(values) for name, values in asked["headers"].items()}
    headers = given | {name: ",".join(values) for name, values in signed["headers"].items()}
    return httpx.request(
        asked["method"], signed["uri"], headers=headers, content=content, timeout=60
    )


@pytest.mark.parametrize(
    ("query", "signature"),
    [
        ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ("lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    ],
)
def test_signatures_are_those_of_the_examples_of_aws(query: str, signature: str) -> None:
    key = Key("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")

    signed = signature_headers(
        key,
        "us-east-1",
        "GET",
        f"https://examplebucket.s3.amazonaws.com/?{query}",
        {"x-amz-content-sha256": sha256(b"").hexdigest()},
        datetime(2013, 5, 24, tzinfo=UTC),
    )

    assert signed["authorization"].endswith(f"Signature={signature}")
    assert "wJalr" not in repr(key)


def test_pyiceberg_reads_and_writes_without_credentials(on_s3: Service) -> None:
    token = on_s3.lake.create_token("etl", role="writer", tables="sales.*")
    catalog = RestCatalog(
        "lake",
        **{
            "uri": f"{on_s3.url}/iceberg",
            "token": token.secret,
            "py-io-impl": "tests.support.signed_io.SignedIO",
            f"header.{DELEGATION}": "remote-signing",
        },
    )

    table = catalog.load_table("sales.totals")
    before = table.scan().to_arrow().num_rows
    table.append(pa.table({"n": [2, 3]}))
    with catalog.create_table_transaction(
        "sales.staged", Schema(NestedField(1, "n", LongType()))
    ) as tx:
        tx.append(pa.table({"n": [7]}))

    assert catalog.load_table("sales.totals").scan().to_arrow().num_rows == before + 2
    assert on_s3.lake.table("sales.staged").to_arrow()["n"].to_pylist() == [7]
    assert on_s3.lake.table("sales.staged").history(limit=1)[0].actor == "etl"


def test_only_clients_that_want_it_get_the_settings_and_no_secret(
    on_s3: Service, shared: Service
) -> None:
    client = on_s3.as_("reader")

    loaded = client.get(LOADED, headers={DELEGATION: "vended-credentials,remote-signing"})

    config = loaded.json()["config"]
    assert config["s3.remote-signing-enabled"] == "true"
    assert config["s3.signer.endpoint"] == "v1/aws/s3/sign"
    assert {name for name in config if "key" in name or "token" in name} == set()
    assert SECRET not in loaded.text
    for header in ({}, {DELEGATION: "vended-credentials"}):
        assert client.get(LOADED, headers=header).json()["config"] == {}
    # A warehouse on a disk has no key to sign with.
    other = shared.as_("admin")
    assert other.get(LOADED, headers={DELEGATION: "remote-signing"}).json()["config"] == {}
    asked = _asked("GET", "http://127.0.0.1/bucket/key")
    assert other.post(SIGN, json=asked).status_code == 406


def test_readers_read_and_list_and_writers_write(
    on_s3: Service, s3_server: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    place = on_s3.lake.table("sales.totals").location.rpartition("/wh/")[2]
    reader, writer = on_s3.as_("reader", "sales.*"), on_s3.as_("writer", "sales.*")
    new = _address(on_s3, s3_server, f"{place}/data/new%20file%2B1.parquet")
    bucket = "/".join(_address(on_s3, s3_server, "").split("/")[:4])
    listing = _asked("GET", f"{bucket}/?list-type=2&prefix=wh%2F{place.replace('/', '%2F')}%2F")

    assert reader.post(SIGN, json=_asked("PUT", new)).status_code == 403
    assert _sent(writer, _asked("PUT", new), b"rows").status_code == 200
    # The client may try again.
    assert _sent(writer, _asked("PUT", new), b"rows").status_code == 200
    assert _sent(reader, _asked("GET", f"{new}?x-id=GetObject")).content == b"rows"
    assert _sent(reader, _asked("HEAD", new)).headers["content-length"] == "4"
    assert "new file+1" in _sent(reader, listing).text.replace("%20", " ").replace("%2B", "+")
    begun = _sent(writer, _asked("POST", f"{new}?uploads"))
    upload = begun.text.partition("<UploadId>")[2].partition("<")[0]
    assert upload
    parts = f"{new}?partNumber=1&uploadId={upload}"
    assert _sent(writer, _asked("PUT", parts), b"more").status_code == 200
    assert reader.post(SIGN, json=_asked("DELETE", new)).status_code == 403
    assert _sent(writer, _asked("DELETE", new)).status_code == 204
    assert _sent(reader, _asked("HEAD", new)).status_code == 404
    told = " ".join(record.getMessage() for record in caplog.records)
    assert SECRET not in told
    assert SECRET not in writer.post(SIGN, json=_asked("PUT", new)).text


def test_files_of_versions_are_neither_overwritten_nor_deleted(
    on_s3: Service, s3_server: S3Server
) -> None:
    table = on_s3.lake.table("sales.totals")
    place = table.location.rpartition("/wh/")[2]
    metadata = str(table.metadata_location).rpartition("/wh/")[2]
    known = [f"{place}/{table.files()[0].path}", metadata, f"{place}/metadata/new.metadata.json"]
    client = on_s3.as_("admin")

    for path in known:
        uri = _address(on_s3, s3_server, path)
        for method in ("PUT", "DELETE"):
            answer = client.post(SIGN, json=_asked(method, uri))
            assert answer.status_code == 403, (method, path, answer.text)
            assert answer.json()["error"]["type"] == "ForbiddenException"
    uri = _address(on_s3, s3_server, "")[: -len("/wh/")]
    body = f"<Delete><Object><Key>wh/{known[0]}</Key></Object></Delete>"
    digest = {"x-amz-content-sha256": [sha256(body.encode()).hexdigest()]}
    several = _asked("POST", f"{uri}?delete", body=body, headers=digest)
    assert client.post(SIGN, json=several).status_code == 403
    free = body.replace(".parquet", "-new.parquet")
    digest = {"x-amz-content-sha256": [sha256(free.encode()).hexdigest()]}
    several = _asked("POST", f"{uri}?delete", body=free, headers=digest)
    assert client.post(SIGN, json=several).status_code == 200
    several["body"] = body
    assert client.post(SIGN, json=several).status_code == 400


def test_nothing_outside_of_the_tables_of_the_caller_is_signed(
    on_s3: Service, s3_server: S3Server
) -> None:
    client = on_s3.as_("writer", "sales.*")
    lake = on_s3.lake
    at = {
        name: lake.table(name).location.rpartition("/wh/")[2]
        for name in ("sales.totals", "gold.plans", "sales.delta")
    }
    totals = at["sales.totals"]

    def status(method: str, path: str, uri: str | None = None, **headers: str) -> int:
        given = {name.replace("_", "-"): [value] for name, value in headers.items()}
        asked = _asked(method, uri or _address(on_s3, s3_server, path), headers=given)
        answer = client.post(SIGN, json=asked)
        assert SECRET not in answer.text
        return answer.status_code

    assert status("GET", f"{totals}/data/x") == 200
    wrong = {
        "another team's table": status("GET", f"{at['gold.plans']}/data/x"),
        "a Delta table": status("GET", f"{at['sales.delta']}/x.parquet"),
        "a dropped table": status("GET", "sales/gone/data/x"),
        "the warehouse": status("GET", "other"),
        "a directory with the same beginning": status("GET", f"{totals}2/data/x"),
        "a new table of another team": status("PUT", "gold/made-0123456789ab/data/x"),
        "a climb": status("GET", f"{totals}/../../{at['gold.plans']}/data/x"),
        "an encoded climb": status("GET", f"{totals}/%2e%2e/%2E%2E/{at['gold.plans']}/data/x"),
        "an empty part": status("GET", f"{totals}//x"),
        "a copy": status("PUT", f"{totals}/x", x_amz_copy_source=f"/b/{at['gold.plans']}/x"),
        "an access list": status("PUT", f"{totals}/x", x_amz_acl="public-read"),
        "another operation": status("PUT", f"{totals}/x?acl"),
        "an old version": status("GET", f"{totals}/x?versionId=1"),
        "another method": status("PATCH", f"{totals}/x"),
        "another store": status("GET", "", f"https://example.org/wh/{totals}/x"),
        "a user": status("GET", "", f"http://u@127.0.0.1/wh/{totals}/x"),
        "a line": status("GET", f"{totals}/x\n/../y"),
        "no address": status("GET", "", "http://[::1"),
        "chunks": status("PUT", f"{totals}/x", x_amz_content_sha256="STREAMING-AWS4-HMAC-SHA256"),
    }
    bucket = "/".join(_address(on_s3, s3_server, "").split("/")[:4])
    for prefix in ("", "prefix=", "prefix=wh/", f"prefix=wh/{totals}", "delete"):
        wrong[f"list {prefix}"] = status("GET", "", f"{bucket}/?{prefix}")
    twice = f"{bucket}/?prefix=wh/{totals}/&prefix=wh/"
    wrong["a parameter twice"] = status("GET", "", twice)
    wrong["no request"] = client.post(SIGN, json={"method": "GET"}).status_code

    assert {what: code for what, code in wrong.items() if code not in (400, 404)} == {}
    assert (
        on_s3.as_("reader", "gold.*")
        .post(SIGN, json=_asked("GET", _address(on_s3, s3_server, f"{totals}/data/x")))
        .status_code
        == 404
    )
