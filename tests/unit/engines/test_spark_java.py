"""Which Java is taken: one's own where it is suitable, the wheel's where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakeward.engines.spark import extra, java, session, trust
from lakeward.errors import MissingExtra

AUTHORITY = """
-----BEGIN CERTIFICATE-----
MIIBiDCCAS2gAwIBAgIUSQdy3QRYr6aa72MdXuXGc7JBlZUwCgYIKoZIzj0EAwIw
GDEWMBQGA1UEAwwNbGFrZXdhcmQgdGVzdDAgFw0yNjExMTUyMzE4NThaGA8yMTI2
MTAyMjIzMTg1OFowGDEWMBQGA1UEAwwNbGFrZXdhcmQgdGVzdDBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABIOZE4cR0jLpQj/uW4+JYJYLbY0jfWNxR4aevSZEe8yk
eLIVOQ6ku1ta8C7nYF+PY4TJVz1LJVcQz+XWn8GV2R6jUzBRMB0GA1UdDgQWBBQt
iCMI9ap5Uv4EG2K1FrX+/Yp7xDAfBgNVHSMEGDAWgBQtiCMI9ap5Uv4EG2K1FrX+
/Yp7xDAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQCph9ppiM1i
P4zzFLLRk1IgZR4Pv3FfJtXyXHAl/0usmgIhAOm0brl7can3sz3899ncaWs42GFb
pqINISFdBrY6vH1p
-----END CERTIFICATE-----
"""


def fake_java(directory: Path, major: int) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {directory}' >&2\n"
        f"echo '    java.specification.version = {'1.8' if major == 8 else major}' >&2\n"
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No Java is named, and the cache is empty."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setenv("LAKEWARD_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize("major", [17, 21])
def test_a_suitable_java_on_the_path_is_taken(bare_machine: Path, major: int) -> None:
    fake_java(bare_machine / "path", major)

    assert java.java_home() == str(bare_machine / "path")


def test_java_home_comes_before_the_path(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(bare_machine / "path", 17)
    fake_java(bare_machine / "named", 21)
    monkeypatch.setenv("JAVA_HOME", str(bare_machine / "named"))

    assert java.java_home() == str(bare_machine / "named")


@pytest.mark.parametrize("major", [8, 11, 25])
def test_an_unsuitable_java_gives_way_to_the_wheels(bare_machine: Path, major: int) -> None:
    fake_java(bare_machine / "path", major)

    assert Path(java.java_home()).parent == bare_machine / "cache"


@pytest.mark.parametrize("major", [8, 11, 25])
def test_an_unsuitable_java_alone_is_a_clear_error(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, major: int
) -> None:
    fake_java(bare_machine / "path", major)
    monkeypatch.setattr(java, "find_spec", lambda _: None)

    with pytest.raises(MissingExtra, match=rf"needs Java 17 to 21; .* is {major}") as caught:
        java.java_home()

    assert "lakeward[spark]" in str(caught.value)


def test_no_java_at_all_is_a_clear_error(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _: None)

    with pytest.raises(MissingExtra, match="there is none"):
        java.java_home()


def test_the_wheels_java_runs_without_the_module_it_lacks(bare_machine: Path) -> None:
    home = java.java_home()
    command = [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-Da=b c", "-version"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert java.look_at(f"{home}/bin/java") is not None
    assert java.java_home() == home


def test_the_wheels_java_trusts_what_the_machine_trusts(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare_machine / "bundle.pem").write_text(f"# ours\n{AUTHORITY}# and again\n{AUTHORITY}")
    monkeypatch.setenv("SSL_CERT_FILE", str(bare_machine / "bundle.pem"))
    home = java.java_home()

    store = _property(f"{home}/bin/java", "javax.net.ssl.trustStore")
    listed = _listed(java.wheel_java(), store)

    assert store.startswith(home)
    assert "contains 2 entries" in listed
    assert listed.count("trustedCertEntry") == 2
    another = _property(f"{home}/bin/java", "javax.net.ssl.trustStore", "/of/mine")
    assert another == "/of/mine"


def test_a_machine_that_tells_nothing_leaves_java_its_own_list(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "_BUNDLES", (str(bare_machine / "nowhere"),))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)

    assert trust.authorities() == []
    assert _property(f"{java.java_home()}/bin/java", "javax.net.ssl.trustStore") == ""


def _property(program: str, name: str, value: str | None = None) -> str:
    more = [] if value is None else [f"-D{name}={value}"]
    command = [program, *more, "-XshowSettings:properties", "-version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = [line.partition(" = ")[2] for line in told.splitlines() if f" {name} = " in line]
    return found[0].strip() if found else ""


def _listed(home: str | None, store: str) -> str:
    command = [f"{home}/bin/keytool", "-list", "-keystore", store, "-storepass", trust.PASSWORD]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)

    with pytest.raises(MissingExtra, match=r"lakeward\[spark\]"):
        extra.pyspark()


def test_a_child_of_a_process_on_the_wheels_java_gets_the_same_one(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java.java_home()
    monkeypatch.setenv("JAVA_HOME", home)
    assert java.java_home() == home


@pytest.mark.parametrize(
    ("own", "chosen"),
    [
        ({}, sys.executable),
        ({"spark.pyspark.python": "/x/python"}, "/x/python"),
        ({"spark.master": "spark://host:7077"}, None),
    ],
)
def test_python_functions_run_in_this_python_on_one_machine(
    monkeypatch: pytest.MonkeyPatch, own: dict[str, str], chosen: str | None
) -> None:
    around: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", around)

    session._set_python(own)

    assert around.get("PYSPARK_PYTHON") == chosen
