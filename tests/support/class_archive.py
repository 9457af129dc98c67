"""An archive of the classes that Spark loads, which every Java of the tests maps into its memory.

Loading and linking them takes a third of the time of a session with a few statements. `make test`
writes the archive once per clone (`python -m tests.support.class_archive`); a Java that it does not
fit, because it is of another version or has other jars, goes on without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

JARS: Final = Path(__file__).parents[2] / ".jars"
ARCHIVE: Final = JARS / "spark.jsa"

QUIET: Final = "-Xlog:disable"
"""Without it a Java prints a line for every class that it leaves out, and when it does not fit."""


def options() -> tuple[str, ...]:
    """Options of a Java that uses the archive; none where there is no archive."""
    return (f"-XX:SharedArchiveFile={ARCHIVE}", QUIET) if ARCHIVE.exists() else ()


def make() -> None:
    """Write the archive, unless it is there."""
    if ARCHIVE.exists():
        return
    JARS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lakeward-") as place:
        made = Path(place) / "spark.jsa"
        command = [sys.executable, "-m", "tests.support.class_archive", str(made)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        if made.exists():
            copied = ARCHIVE.with_suffix(f".{os.getpid()}")
            shutil.copyfile(made, copied)
            copied.replace(ARCHIVE)


def record(archive: Path) -> None:
    """Run statements on tables of both formats in a session whose Java writes the archive."""
    import lakeward as lw
    from lakeward.spark import session
    from tests.support.sparks import CONF

    place = archive.parent
    java = f"{CONF['spark.driver.extraJavaOptions']} -XX:ArchiveClassesAtExit={archive} {QUIET}"
    settings = {
        **CONF,
        "spark.driver.extraJavaOptions": java,
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.local.dir": str(place / "local"),
    }
    with lw.open(place / "lake") as lake:
        spark = session(lake, master="local[2]", **settings)
        lake.create("s.d", {"id": "int64", "v": "string"})
        lake.create("s.i", {"id": "int64", "v": "string"}, format="iceberg")
        with lake.transaction(spark=spark) as tx:
            tx.sql("INSERT INTO s.d VALUES (1, 'a'), (2, 'b')")
            tx.sql("INSERT INTO s.i SELECT id, v FROM s.d")
            tx.sql(
                "MERGE INTO s.d USING s.i ON d.id = i.id WHEN MATCHED AND i.id = 1 THEN UPDATE"
                " SET v = 'c' WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
            )
            tx.sql("UPDATE s.i SET v = 'd' WHERE id = 1")
            tx.sql("DELETE FROM s.d WHERE id = 1")
        gateway: Any = spark.sparkContext._gateway
        process = gateway.proc
        spark.stop()
        gateway.shutdown()
        # Java writes the archive when it ends, which it does at the end of its input.
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    os.environ.setdefault("LAKEWARD_CACHE", str(JARS))
    record(Path(sys.argv[1])) if len(sys.argv) > 1 else make()
