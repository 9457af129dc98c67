"""Where the settings of a warehouse come from, and that nobody sees its secrets."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from lakeward.errors import InvalidInput, MissingExtra
from lakeward.storage.object_store.engine_options import for_iceberg
from lakeward.storage.object_store.options import resolve
from lakeward.storage.object_store.places import AZURE, GCS, S3

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI"}


def test_arguments_come_before_the_environment_and_that_before_a_profile(tmp_path: Path) -> None:
    environment = profiles(tmp_path, config="[default]\nregion = r3\nendpoint_url = https://p\n")
    environment |= {"AWS_REGION": "r2", "AWS_ENDPOINT_URL": "https://e"}

    found = resolve(S3, {"aws_region": "r1"}, environment)

    assert (found.get("region"), found.get("endpoint")) == ("r1", "https://e")
    assert found.sources["region"] == "argument"
    assert found.sources["endpoint"] == "environment"
    assert resolve(S3, {}, environment).get("region") == "r2"
    assert resolve(S3, {}, profiles(tmp_path)).get("endpoint") == "https://p"


def test_credentials_are_never_joined_from_two_sources() -> None:
    environment = {"AWS_SESSION_TOKEN": "of-somebody-else", **KEYS}

    found = resolve(S3, {"access_key_id": "mine", "secret_access_key": "s"}, environment)

    assert found.get("access_key_id") == "mine"
    assert found.get("session_token") is None


def test_a_profile_named_in_the_call_comes_before_keys_in_the_environment(tmp_path: Path) -> None:
    text = "[work]\naws_access_key_id = W\naws_secret_access_key = w%s\n"
    environment = {**profiles(tmp_path, credentials=text), **KEYS}

    assert resolve(S3, {"AWS_PROFILE": "work"}, environment).get("secret_access_key") == "w%s"
    assert (
        resolve(S3, {}, {**environment, "AWS_PROFILE": "work"}).get("access_key_id")
        == (KEYS["AWS_ACCESS_KEY_ID"])
    )


def test_a_profile_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no AWS profile 'nowhere'"):
        resolve(S3, {"AWS_PROFILE": "nowhere"}, profiles(tmp_path))


def test_a_profile_that_asks_for_a_login_says_what_to_run(tmp_path: Path) -> None:
    environment = profiles(tmp_path, config="[profile sso]\nsso_start_url = https://x\n")

    with pytest.raises(MissingExtra, match=r"sso_start_url, which needs AWS's CLI\. Install it"):
        resolve(S3, {"AWS_PROFILE": "sso"}, environment)


def test_a_damaged_profile_file_is_told_without_its_lines(tmp_path: Path) -> None:
    environment = profiles(tmp_path, credentials="aws_secret_access_key = not-to-be-seen\n")

    with pytest.raises(InvalidInput, match="cannot be understood") as caught:
        resolve(S3, {}, environment)

    assert "not-to-be-seen" not in everything(caught.value)


def test_requests_that_are_not_signed_take_no_credentials_from_further_down() -> None:
    found = resolve(S3, {"AWS_SKIP_SIGNATURE": True}, KEYS)

    assert found.get("access_key_id") is None
    assert found.store_settings()["skip_signature"] is True


@pytest.mark.parametrize(
    ("provider", "given"),
    [
        (S3, {"AWS_SECRET_ACESS_KEY": "hidden-value"}),
        (S3, {"AWS_ALLOW_HTTP": "hidden-value"}),
        (S3, {"AWS_ACCESS_KEY_ID": "hidden-value"}),
        (S3, {"AWS_ENDPOINT_URL": "hidden-value"}),
        (S3, {"AWS_ENDPOINT_URL": "https://me:hidden-value@host"}),
        (S3, {"AWS_ENDPOINT_URL": "http://plain"}),
        (S3, {"timeout": "hidden-value"}),
        (S3, {"max_retries": "hidden-value"}),
        (AZURE, {"AWS_REGION": "hidden-value"}),
        (GCS, {"GOOGLE_BASE_URL": "ftp://hidden-value"}),
    ],
)
def test_what_makes_no_sense_is_refused_and_its_value_not_repeated(
    provider: str, given: dict[str, str]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve(provider, given, {})

    assert "hidden-value" not in everything(caught.value)


@pytest.mark.parametrize(
    ("provider", "given"),
    [
        (S3, {**KEYS, "AWS_SESSION_TOKEN": "FwoGZXIvYXdzE"}),
        (
            AZURE,
            {
                "AZURE_STORAGE_ACCOUNT_NAME": "acct",
                "AZURE_STORAGE_ACCOUNT_KEY": "Eby8vdM02xNO",
                "AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=c2lnbmVk",
                "AZURE_CLIENT_SECRET": "client~secret",
                "AZURE_STORAGE_TOKEN": "eyJhbGciOi",
            },
        ),
        (GCS, {"GOOGLE_SERVICE_ACCOUNT_KEY": '{"private_key": "----"}'}),
    ],
)
def test_a_representation_shows_no_secret(provider: str, given: dict[str, str]) -> None:
    found = resolve(provider, given, {})

    shown = f"{found!r} {found} {[found]}"

    for name, value in given.items():
        assert (value in shown) == (name == "AZURE_STORAGE_ACCOUNT_NAME"), name
    assert pickle.loads(pickle.dumps(found)) == found


def test_pyiceberg_takes_the_token_of_gcs() -> None:
    properties = for_iceberg(resolve(GCS, {}, {"GOOGLE_BEARER_TOKEN": "of-mine"}))

    assert properties["gcs.oauth2.token"] == "of-mine"
    assert PyArrowFileIO(properties).fs_by_scheme("gs", "bucket").type_name == "gcs"


def test_unsigned_requests_to_gcs_have_a_key_that_signs_nothing() -> None:
    found = resolve(GCS, {"GOOGLE_SKIP_SIGNATURE": "true"}, {"GOOGLE_BEARER_TOKEN": "of-another"})

    settings = found.store_settings()
    assert settings.keys() == {"skip_signature", "service_account_key"}
    assert orjson.loads(settings["service_account_key"])["disable_oauth"] is True
    assert not found.has_credentials()


def test_an_azure_connection_string_is_taken_apart() -> None:
    text = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k==;EndpointSuffix=x"

    found = resolve(AZURE, {}, {"AZURE_STORAGE_CONNECTION_STRING": text})

    assert (found.get("account_name"), found.get("account_key")) == ("a", "k==")


def test_bare_names_of_the_environment_are_not_taken() -> None:
    assert resolve(S3, {}, {"REGION": "x", "TIMEOUT": "y", "PROFILE": "z"}).values == {
        "region": "us-east-1"
    }


def profiles(directory: Path, **files: str) -> dict[str, str]:
    """An environment with a home of its own, and AWS's files in it."""
    aws = directory / ".aws"
    aws.mkdir(exist_ok=True)
    for name, text in files.items():
        (aws / name).write_text(text)
    return {"HOME": str(directory)}


def everything(error: Any) -> str:
    """All that a person or a program may get to see of an error."""
    seen = f"{error} {error!r} {error.facts} {error.__dict__}"
    assert error.__suppress_context__ or error.__context__ is None
    return seen
