"""Iceberg's own compatibility kit for REST catalogs, run against the service.

`EXPECTED` has the tests of the kit that fail, each with the reason. The kit skips 12 more, about
what it does not ask of every catalog.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import pytest

import lakeward as lw
from tests.support.s3 import java
from tests.support.servers import Unobtainable
from tests.support.service import Service

_HOME: Final = Path(__file__).parents[2] / ".tools" / "kit"
_POM: Final = Path(__file__).parent / "kit" / "pom.xml"
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_PACKAGE: Final = "org.apache.iceberg.rest.RESTCompatibilityKit"
_PROMISED: Final = "it expires snapshots of versions that the lake promises"
_MOVED: Final = "it moves a table, which the lake does not do"
_ABSENT: Final = "it commits a data file that does not exist, which the lake refuses"
_VIEW: Final = "it chooses the location of a view, which the lake does"

EXPECTED: Final = {
    "testRemoveUnusedSpec(boolean)[1]": _PROMISED,
    "testRemoveUnusedSpec(boolean)[2]": _PROMISED,
    "testRemoveUnusedSchemas(boolean)[2]": _PROMISED,
    "testCompleteReplaceTransaction()": _MOVED,
    "testCompleteCreateOrReplaceTransactionReplace()": _MOVED,
    "testLoadTableWithMissingMetadataFile(Path)": "the service answers from memory",
    "dropAfterRenameDoesntCorruptTable()": "it commits an empty file as Parquet",
    "testCatalogWithCustomMetricsReporter()": "it commits a file that is not named in full",
    "testAppend()": _ABSENT,
    "testCompleteCreateOrReplaceTransactionCreate()": _ABSENT,
    "testCompleteCreateTransaction()": _ABSENT,
    "testCompleteCreateTransactionMultipleSchemas()": _ABSENT,
    "testCompleteCreateTransactionV2()": _ABSENT,
    "testConcurrentAppendEmptyTable()": _ABSENT,
    "testConcurrentAppendNonEmptyTable()": _ABSENT,
    "testConcurrentReplaceTransactionPartitionSpec()": _ABSENT,
    "testConcurrentReplaceTransactionPartitionSpec2()": _ABSENT,
    "testConcurrentReplaceTransactionPartitionSpecConflict()": _ABSENT,
    "testConcurrentReplaceTransactionSchema()": _ABSENT,
    "testConcurrentReplaceTransactionSchema2()": _ABSENT,
    "testConcurrentReplaceTransactionSchemaConflict()": _ABSENT,
    "testConcurrentReplaceTransactionSortOrder()": _ABSENT,
    "testConcurrentReplaceTransactionSortOrderConflict()": _ABSENT,
    "testConcurrentReplaceTransactions()": _ABSENT,
    "testCreateOrReplaceReplaceTransactionReplace()": _ABSENT,
    "testCreateOrReplaceTransactionCreate()": _ABSENT,
    "testCreateTransaction()": _ABSENT,
    "testRegisterTable()": _ABSENT,
    "testRemoveUnusedSchemas(boolean)[1]": _ABSENT,
    "testReplaceTableKeepsSnapshotLog()": _ABSENT,
    "testReplaceTransaction()": _ABSENT,
    "createAndReplaceViewWithLocation()": _VIEW,
    "createViewWithCustomMetadataLocation()": _VIEW,
    "updateViewLocation()": _VIEW,
}


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_compatibility_kit_passes(tmp_path: Path) -> None:
    try:
        jars = obtain()
    except Unobtainable as error:
        pytest.skip(str(error))
    with (
        lw.open(tmp_path / "lake") as lake,
        Service(lake, anonymous=None, rate=1e6, burst=1e6) as service,
    ):
        # The lake chooses locations, and namespaces are created before their tables.
        settings = {
            "uri": f"{service.url}/iceberg",
            "token": lake.create_token("kit", role="admin").secret,
            "rck.local": "false",
            "rck.requires-namespace-create": "true",
            "rck.supports-serverside-retry": "true",
            "rck.overrides-requested-location": "true",
            "org.slf4j.simpleLogger.defaultLogLevel": "error",
        }
        done = subprocess.run(
            [
                java(),
                *(f"-D{key}={value}" for key, value in settings.items()),
                *("-cp", f"{jars}/*", "org.junit.platform.console.ConsoleLauncher", "execute"),
                *(f"--select-class={_PACKAGE}{kind}Tests" for kind in ("Catalog", "ViewCatalog")),
                *("--reports-dir", str(tmp_path), "--details", "none", "--disable-banner"),
            ],
            capture_output=True,
            text=True,
        )
        wrong = {f.code for f in lake.doctor().findings if f.severity == "error"}

    passed, failed, skipped = results(tmp_path)
    assert passed, done.stdout[-3000:] + done.stderr[-3000:]
    print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
    assert set(failed) == set(EXPECTED), {n: t for n, t in failed.items() if n not in EXPECTED}
    assert len(passed) >= 111
    assert not wrong, wrong


def results(directory: Path) -> tuple[list[str], dict[str, str], list[str]]:
    """The tests that passed, those that failed with their messages, and those skipped."""
    passed, failed, skipped = [], {}, []
    for report in directory.glob("TEST-*.xml"):
        for case in ET.parse(report).getroot().iter("testcase"):
            # `[1]` of a test with parameters is in its name, behind the types of them.
            name = re.sub(r"\)\[(\d+)\].*", r")[\1]", str(case.get("name")))
            wrong = case.find("failure") if case.find("failure") is not None else case.find("error")
            if wrong is not None:
                failed[name] = str(wrong.get("message"))[:300]
            elif case.find("skipped") is not None:
                skipped.append(name)
            else:
                passed.append(name)
    return passed, failed, skipped


def obtain() -> Path:
    """The directory of the kit's jars, fetched once by Maven.

    Raises:
        Unobtainable: There is no Java or no Maven, or the registry cannot be reached.
    """
    java()
    maven = shutil.which("mvn")
    jars = _HOME / "jars"
    _HOME.mkdir(parents=True, exist_ok=True)
    with (_HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if jars.exists():
            return jars
        if maven is None:
            message = "the kit comes with Maven, and there is no mvn"
            raise Unobtainable(message)
        scratch = _HOME / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        command = [maven, "-B", "-q", "-f", str(_POM), _COPY, f"-DoutputDirectory={scratch}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            message = f"Maven could not get the kit: {(done.stdout + done.stderr)[-400:]}"
            raise Unobtainable(message)
        scratch.rename(jars)
    return jars
