"""The jars and the settings of a session follow from the warehouse."""

from __future__ import annotations

import pytest

from lakeward.engines.spark.session import packages_of
from lakeward.engines.spark.versions import PACKAGES, STORE_PACKAGES
from lakeward.storage.object_store.engine_options import SPARK_PACKAGES, for_spark
from lakeward.storage.object_store.options import resolve
from lakeward.storage.object_store.places import AZURE, GCS, PROVIDERS

_HOST = "name.dfs.core.windows.net"
_PREFIX = "spark.hadoop.fs.azure."


@pytest.mark.parametrize(
    ("warehouse", "connector"),
    [
        ("/data/lake", []),
        ("s3://bucket/lake", ["hadoop-aws"]),
        (f"abfss://files@{_HOST}/lake", ["hadoop-azure"]),
        ("gs://bucket/lake", ["gcs-connector"]),
    ],
)
def test_a_session_fetches_the_connector_of_its_warehouse(
    warehouse: str, connector: list[str]
) -> None:
    found = [package.split(":")[1] for package in packages_of(warehouse)]
    assert found[len(PACKAGES) :][:1] == connector


def test_the_coordinates_are_those_that_belong_to_the_options() -> None:
    assert all(SPARK_PACKAGES[PROVIDERS[s]] == found for s, found in STORE_PACKAGES.items())


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"account_key": "c2VjcmV0"}, {"account.key": "c2VjcmV0"}),
        ({"sas_key": "sv=1&sig=x"}, {"account.auth.type": "SAS", "sas.fixed.token": "sv=1&sig=x"}),
        (
            {"client_id": "me", "client_secret": "s", "tenant_id": "t"},
            {
                "account.auth.type": "OAuth",
                "account.oauth2.client.id": "me",
                "account.oauth2.client.secret": "s",
                "account.oauth2.client.endpoint": "https://login.microsoftonline.com/t/oauth2/token",
            },
        ),
    ],
)
def test_spark_gets_the_credentials_of_an_azure_account(
    options: dict[str, str], wanted: dict[str, str]
) -> None:
    found = for_spark(resolve(AZURE, {"account_name": "name", **options}, {}))
    assert {f"{_PREFIX}{k}.{_HOST}": v for k, v in wanted.items()}.items() <= found.items()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, {"auth.type": "APPLICATION_DEFAULT"}),
        (
            {"service_account": "/key.json"},
            {
                "auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "auth.service.account.json.keyfile": "/key.json",
            },
        ),
        (
            {"skip_signature": "true", "base_url": "https://127.0.0.1:1"},
            {"auth.type": "UNAUTHENTICATED", "storage.root.url": "https://127.0.0.1:1"},
        ),
    ],
)
def test_spark_gets_the_credentials_of_gcs(options: dict[str, str], wanted: dict[str, str]) -> None:
    found = for_spark(resolve(GCS, options, {}))
    assert {f"spark.hadoop.fs.gs.{k}": v for k, v in wanted.items()}.items() <= found.items()


@pytest.mark.parametrize("options", [{"bearer_token": "t"}, {"service_account_key": "{}"}])
def test_spark_does_not_take_other_credentials_of_gcs_than_the_lake(
    options: dict[str, str],
) -> None:
    assert not any(".auth." in key for key in for_spark(resolve(GCS, options, {})))


def test_spark_speaks_plain_http_and_the_api_of_blobs_to_azurite() -> None:
    found = for_spark(resolve(AZURE, {"use_emulator": "true", "account_key": "c2VjcmV0"}, {}))
    assert found[f"{_PREFIX}abfs.endpoint"] == "127.0.0.1:10000"
    assert found[f"{_PREFIX}fns.account.service.type"] == "BLOB"
    real = for_spark(resolve(AZURE, {"account_name": "name", "account_key": "c2VjcmV0"}, {}))
    assert f"{_PREFIX}always.use.https" not in real
