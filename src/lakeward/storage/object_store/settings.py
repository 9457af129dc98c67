"""The settings of object stores: their names in each tool, and which of them are secrets.

The first name of a setting is obstore's own; the others are those of other tools and environment
variables. Names are compared without case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakeward.storage.object_store.places import AZURE, GCS, S3


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of an object store: the name that obstore uses, and the aliases that we accept.

    The kind is `text`, `flag`, `secret`, or `identity`: a part of credentials that is no secret by
    itself. `client` marks settings of the connection.
    """

    name: str
    others: tuple[str, ...] = ()
    kind: str = "text"
    client: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The setting's name and its aliases, in lower case."""
        return (self.name, *self.others)

    @property
    def is_credential(self) -> bool:
        """Whether the setting is a part of credentials, all of which must come from one source."""
        return self.kind in ("secret", "identity")


_CLIENT: Final = (
    Setting("timeout", client=True),
    Setting("connect_timeout", client=True),
    Setting("proxy_url", client=True),
)
_RETRIES: Final = (Setting("max_retries"), Setting("retry_timeout"))
PROFILE: Final = "profile"

SETTINGS: Final[dict[str, tuple[Setting, ...]]] = {
    S3: (
        Setting("access_key_id", ("aws_access_key_id",), "secret"),
        Setting("secret_access_key", ("aws_secret_access_key",), "secret"),
        Setting("session_token", ("aws_session_token", "aws_security_token"), "secret"),
        Setting("skip_signature", ("aws_skip_signature",), "flag"),
        Setting(PROFILE, ("aws_profile",)),
        Setting("region", ("aws_region", "aws_default_region")),
        Setting("endpoint", ("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint")),
        Setting("allow_http", ("aws_allow_http",), "flag", client=True),
        Setting("virtual_hosted_style_request", ("aws_virtual_hosted_style_request",), "flag"),
        Setting("unsigned_payload", ("aws_unsigned_payload",), "flag"),
        Setting("request_payer", ("aws_request_payer",), "flag"),
        Setting("role_arn", ("aws_role_arn",)),
        Setting("role_session_name", ("aws_role_session_name",)),
        Setting("web_identity_token_file", ("aws_web_identity_token_file",)),
        Setting("container_credentials_relative_uri", ("aws_container_credentials_relative_uri",)),
        Setting("container_credentials_full_uri", ("aws_container_credentials_full_uri",)),
        Setting("container_authorization_token_file", ("aws_container_authorization_token_file",)),
        Setting("metadata_endpoint", ("aws_metadata_endpoint",)),
        Setting("server_side_encryption", ("aws_server_side_encryption",)),
        Setting("sse_kms_key_id", ("aws_sse_kms_key_id",)),
        *_CLIENT,
        *_RETRIES,
    ),
    AZURE: (
        Setting("account_name", ("azure_storage_account_name", "azure_storage_account")),
        Setting("account_key", ("azure_storage_account_key", "azure_storage_access_key"), "secret"),
        Setting("sas_key", ("azure_storage_sas_token", "azure_storage_sas_key"), "secret"),
        Setting("token", ("azure_storage_token",), "secret"),
        Setting("client_id", ("azure_client_id", "azure_storage_client_id"), "identity"),
        Setting("client_secret", ("azure_client_secret", "azure_storage_client_secret"), "secret"),
        Setting("tenant_id", ("azure_tenant_id", "azure_storage_tenant_id"), "identity"),
        Setting("federated_token_file", ("azure_federated_token_file",), "identity"),
        Setting("authority_host", ("azure_authority_host",)),
        Setting("msi_endpoint", ("azure_msi_endpoint",)),
        Setting("use_azure_cli", ("azure_use_azure_cli",), "flag"),
        Setting("skip_signature", ("azure_skip_signature",), "flag"),
        Setting("use_emulator", ("azure_storage_use_emulator",), "flag"),
        Setting("endpoint", ("azure_storage_endpoint", "azure_endpoint")),
        Setting(
            "allow_http", ("azure_storage_allow_http", "azure_allow_http"), "flag", client=True
        ),
        *_CLIENT,
        *_RETRIES,
    ),
    GCS: (
        Setting(
            "service_account", ("google_service_account", "google_service_account_path"), "identity"
        ),
        Setting("service_account_key", ("google_service_account_key",), "secret"),
        Setting("bearer_token", ("google_bearer_token",), "secret"),
        Setting("application_credentials", ("google_application_credentials",), "identity"),
        Setting("skip_signature", ("google_skip_signature",), "flag"),
        Setting("base_url", ("google_base_url",)),
        Setting("allow_http", ("google_allow_http",), "flag", client=True),
        *_CLIENT,
        *_RETRIES,
    ),
}
"""The settings of each provider."""


def environment_secrets(environment: Mapping[str, str]) -> list[str]:
    """Return the values of an environment that are secrets of object stores."""
    names = [
        name.upper()
        for settings in SETTINGS.values()
        for setting in settings
        if setting.kind == "secret"
        for name in setting.others
    ]
    return [environment[name] for name in names if environment.get(name)]
