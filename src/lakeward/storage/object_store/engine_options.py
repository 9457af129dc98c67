"""Translates a warehouse's options to the option names of each engine, credentials included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from lakeward.storage.object_store.options import StorageOptions
from lakeward.storage.object_store.places import AZURE, GCS, S3

SPARK_PACKAGES: Final = {
    S3: (
        "org.apache.hadoop:hadoop-aws:3.4.2",
        "software.amazon.awssdk:s3:2.29.52",
        "software.amazon.awssdk:s3-transfer-manager:2.29.52",
        "software.amazon.awssdk:sts:2.29.52",
    ),
    AZURE: ("org.apache.hadoop:hadoop-azure:3.4.2",),
    GCS: ("com.google.cloud.bigdataoss:gcs-connector:4.0.4:shaded",),
}
"""The jars that Spark needs, by Maven coordinates; the fourth part is a classifier."""
SPARK_EXCLUDES: Final = {
    S3: ("software.amazon.awssdk:bundle", "software.amazon.awssdk:netty-nio-client"),
}
"""The `spark.jars.excludes` of each provider: the whole AWS SDK has 600 MB."""

_DELTA: Final = {
    S3: {
        "access_key_id": "AWS_ACCESS_KEY_ID",
        "secret_access_key": "AWS_SECRET_ACCESS_KEY",
        "session_token": "AWS_SESSION_TOKEN",
        "skip_signature": "AWS_SKIP_SIGNATURE",
        "region": "AWS_REGION",
        "endpoint": "AWS_ENDPOINT_URL",
        "allow_http": "AWS_ALLOW_HTTP",
        "virtual_hosted_style_request": "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    },
    AZURE: {
        "account_name": "AZURE_STORAGE_ACCOUNT_NAME",
        "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
        "sas_key": "AZURE_STORAGE_SAS_TOKEN",
        "token": "AZURE_STORAGE_TOKEN",
        "client_id": "AZURE_STORAGE_CLIENT_ID",
        "client_secret": "AZURE_STORAGE_CLIENT_SECRET",
        "tenant_id": "AZURE_STORAGE_TENANT_ID",
        "federated_token_file": "AZURE_FEDERATED_TOKEN_FILE",
        "use_azure_cli": "AZURE_USE_AZURE_CLI",
        "use_emulator": "AZURE_STORAGE_USE_EMULATOR",
        "endpoint": "AZURE_ENDPOINT",
        "allow_http": "AZURE_ALLOW_HTTP",
    },
    GCS: {
        "service_account": "GOOGLE_SERVICE_ACCOUNT",
        "service_account_key": "GOOGLE_SERVICE_ACCOUNT_KEY",
        "application_credentials": "GOOGLE_APPLICATION_CREDENTIALS",
        "skip_signature": "GOOGLE_SKIP_SIGNATURE",
        "base_url": "GOOGLE_BASE_URL",
        "allow_http": "GOOGLE_ALLOW_HTTP",
    },
}
_GCS_TOKEN: Final = "gcs.oauth2.token"  # noqa: S105
_ICEBERG: Final = {
    S3: {
        "access_key_id": "s3.access-key-id",
        "secret_access_key": "s3.secret-access-key",
        "session_token": "s3.session-token",
        "skip_signature": "s3.anonymous",
        "region": "s3.region",
        "endpoint": "s3.endpoint",
        "virtual_hosted_style_request": "s3.force-virtual-addressing",
    },
    AZURE: {
        "account_name": "adls.account-name",
        "account_key": "adls.account-key",
        "sas_key": "adls.sas-token",
        "client_id": "adls.client-id",
        "client_secret": "adls.client-secret",
        "tenant_id": "adls.tenant-id",
    },
    GCS: {"bearer_token": _GCS_TOKEN, "base_url": "gcs.service.host"},
}
_LATER: Final = "4102444800000"
"""The year 2100, in milliseconds."""
_KEY_PROVIDER: Final = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_TOKEN_PROVIDER: Final = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"  # noqa: S105
_AZURITE: Final = {
    # The client for plain http, also for the names of https.
    "fs.abfss.impl": "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
    "fs.azure.always.use.https": "false",
    "fs.azure.abfs.endpoint": "127.0.0.1:10000",
    # It has the API of Blob storage only.
    "fs.azure.account.hns.enabled": "false",
    "fs.azure.fns.account.service.type": "BLOB",
    # The usual one takes a client for https, whatever is set above.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_ANONYMOUS: Final = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"


def for_delta(options: StorageOptions) -> dict[str, str]:
    """Return the `storage_options` of delta-rs."""
    names = _DELTA[options.provider]
    return {names[name]: value for name, value in options.values.items() if name in names}


def for_iceberg(options: StorageOptions) -> dict[str, str]:
    """Return the properties with which pyiceberg accesses files."""
    names = _ICEBERG[options.provider]
    found = {names[name]: value for name, value in options.values.items() if name in names}
    if _GCS_TOKEN in found:
        # pyarrow takes no token without the time when it ends, and renews none.
        found["gcs.oauth2.token-expires-at"] = _LATER
    return found


def for_spark(options: StorageOptions) -> dict[str, str]:
    """Return the settings of a Spark session, for Delta and for Iceberg tables.

    With them Spark opens every `Table.location`. Spark also needs the jars of
    `SPARK_PACKAGES`, which a session of the lake fetches.
    """
    spelled = {S3: _spark_s3, AZURE: _spark_azure, GCS: _spark_gcs}[options.provider]
    return {f"spark.hadoop.{name}": value for name, value in spelled(options)}


def _spark_s3(options: StorageOptions) -> Iterator[tuple[str, str]]:
    for scheme in ("s3", "s3n"):
        yield f"fs.{scheme}.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem"
    yield "fs.s3a.endpoint.region", str(options.get("region"))
    endpoint = options.get("endpoint")
    if endpoint is not None:
        yield "fs.s3a.endpoint", endpoint
        secure = urlsplit(endpoint).scheme == "https"
        yield "fs.s3a.connection.ssl.enabled", str(secure).lower()
    hosted = options.flag("virtual_hosted_style_request") or (
        endpoint is None and "virtual_hosted_style_request" not in options.values
    )
    yield "fs.s3a.path.style.access", str(not hosted).lower()
    key, secret = options.get("access_key_id"), options.get("secret_access_key")
    token = options.get("session_token")
    if options.flag("skip_signature"):
        yield "fs.s3a.aws.credentials.provider", _ANONYMOUS
    elif key is not None and secret is not None:
        yield "fs.s3a.access.key", key
        yield "fs.s3a.secret.key", secret
        yield "fs.s3a.aws.credentials.provider", _TOKEN_PROVIDER if token else _KEY_PROVIDER
        if token:
            yield "fs.s3a.session.token", token


def _spark_azure(options: StorageOptions) -> Iterator[tuple[str, str]]:
    host = f"{options.get('account_name')}.dfs.core.windows.net"
    if options.flag("use_emulator"):
        yield from _AZURITE.items()
    key, sas, secret = (options.get(n) for n in ("account_key", "sas_key", "client_secret"))
    if key is not None:
        yield f"fs.azure.account.key.{host}", key
    elif sas is not None:
        yield f"fs.azure.account.auth.type.{host}", "SAS"
        yield f"fs.azure.sas.fixed.token.{host}", sas
    elif secret is not None:
        authority = options.get("authority_host") or "https://login.microsoftonline.com"
        tenant = options.get("tenant_id")
        kind = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
        yield f"fs.azure.account.auth.type.{host}", "OAuth"
        yield f"fs.azure.account.oauth.provider.type.{host}", kind
        yield f"fs.azure.account.oauth2.client.id.{host}", str(options.get("client_id"))
        yield f"fs.azure.account.oauth2.client.secret.{host}", secret
        endpoint = f"{authority.rstrip('/')}/{tenant}/oauth2/token"
        yield f"fs.azure.account.oauth2.client.endpoint.{host}", endpoint


def _spark_gcs(options: StorageOptions) -> Iterator[tuple[str, str]]:
    yield "fs.gs.impl", "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"
    yield "fs.AbstractFileSystem.gs.impl", "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS"
    if options.get("base_url") is not None:
        yield "fs.gs.storage.root.url", str(options.get("base_url"))
    path = options.get("service_account") or options.get("application_credentials")
    if options.flag("skip_signature"):
        yield "fs.gs.auth.type", "UNAUTHENTICATED"
    elif path is not None:
        yield "fs.gs.auth.type", "SERVICE_ACCOUNT_JSON_KEYFILE"
        yield "fs.gs.auth.service.account.json.keyfile", path
    elif not {"service_account_key", "bearer_token"} & options.values.keys():
        yield "fs.gs.auth.type", "APPLICATION_DEFAULT"
