"""Runs the programs that resolve jars: Spark's own, and the Ivy inside it for single jars.

A package with a classifier, as in `group:name:version:shaded`, is one jar that contains all that it
needs. Spark's `--packages` takes no classifiers, so Ivy is run without Spark for these.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from xml.sax.saxutils import quoteattr

from lakeward.engines.spark.extra import pyspark
from lakeward.engines.spark.java import java_home
from lakeward.errors import MissingExtra

IVY_SETTINGS: Final = "spark.jars.ivySettings"
REPOSITORIES: Final = "spark.jars.repositories"
_CENTRAL: Final = "DEFAULT_ARTIFACT_REPOSITORY"
"""The variable by which Spark, too, takes another repository in place of Maven's central one."""
_FETCHED: Final = re.compile(r"^downloading \S+/([^/\s]+\.jar)")
_PROBLEMS: Final = re.compile(r"unresolved dependency|not found|Exception|refused|timed out", re.I)
_SHOWN: Final = 4
_REQUEST: Final = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="lakeward" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org={group} name={name} rev={version} transitive="false" conf="default->default">
      <artifact name={name} type="jar" ext="jar" m:classifier={classifier}/>
    </dependency>
  </dependencies>
</ivy-module>
"""
_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="all"/>
  <resolvers><chain name="all" returnFirst="true">{resolvers}</chain></resolvers>
</ivysettings>
"""
# Without `usepoms` the imports of the POM are not read, hundreds of files for a jar without needs.
_RESOLVER: Final = '<ibiblio name="{name}" m2compatible="true" usepoms="false"{root}/>'


def spark_home() -> Path:
    """Return the directory of Spark in the installed pyspark."""
    return Path(str(pyspark().__file__)).parent


def has_classifier(package: str) -> bool:
    """Whether coordinates name one jar by its classifier."""
    return package.count(":") > 2


def fetch_jar(
    package: str,
    settings: Mapping[str, str],
    directory: Path,
    work: Path,
    progress: Callable[[str], None],
) -> None:
    """Put the jar of a package with a classifier into a directory.

    With `spark.jars.ivySettings` it is searched as these say, then in `spark.jars.repositories`;
    without, in the repositories, then in Maven's central one.
    """
    group, name, version, classifier = package.split(":")
    request = work / "ivy.xml"
    parts = {"group": group, "name": name, "version": version, "classifier": classifier}
    request.write_text(_REQUEST.format(**{k: quoteattr(v) for k, v in parts.items()}))
    pattern = f"{directory}/[organisation]_[artifact]-[revision]-[classifier].[ext]"
    wanted = directory / f"{group}_{name}-{version}-{classifier}.jar"
    heard: list[str] = []
    for chosen in _settings_files(settings, work):
        command = [
            *(str(Path(java_home()) / "bin" / "java"), "-cp", str(spark_home() / "jars" / "*")),
            *("org.apache.ivy.Main", "-settings", str(chosen), "-cache", str(work / "cache")),
            *("-ivy", str(request), "-retrieve", pattern),
        ]
        _, said = run(command, {}, work, progress)
        heard += said
        if wanted.is_file():
            return
    raise failed(heard)


def _settings_files(settings: Mapping[str, str], work: Path) -> Iterator[Path]:
    own = settings.get(IVY_SETTINGS)
    roots = [part.strip() for part in settings.get(REPOSITORIES, "").split(",") if part.strip()]
    if own:
        yield Path(unquote(urlsplit(own).path) if own.startswith("file:") else own).absolute()
        if not roots:
            return
    resolvers = [
        _RESOLVER.format(name=f"repository-{number}", root=f" root={quoteattr(root)}")
        for number, root in enumerate(roots)
    ]
    if not own:
        central = os.environ.get(_CENTRAL)
        root = f" root={quoteattr(central)}" if central else ""
        resolvers.append(_RESOLVER.format(name="central", root=root))
    generated = work / "ivysettings.xml"
    generated.write_text(_SETTINGS.format(resolvers="".join(resolvers)))
    yield generated


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    work: Path,
    progress: Callable[[str], None],
) -> tuple[int, list[str]]:
    """Run a program that downloads jars; return its exit code and the lines of its output."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYSPARK_SUBMIT_ARGS"}
    process = subprocess.Popen(  # noqa: S603  Spark's own programs, and no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**inherited, **environment},
        cwd=work,
    )
    heard: list[str] = []
    with process:
        for line in process.stdout or ():
            heard.append(line.strip())
            fetched = _FETCHED.match(heard[-1])
            if fetched is not None:
                progress(fetched[1])
    return process.returncode, heard


def failed(heard: Sequence[str]) -> MissingExtra:
    """Return the error of a failed download, which quotes what the program said."""
    telling = [line for line in heard if _PROBLEMS.search(line)] or list(heard)
    said = "; ".join(dict.fromkeys(telling[-_SHOWN:]))
    what = f"The jars for Spark cannot be fetched: {said}."
    hint = (
        f"Check the network and try again; with a mirror of your own, set {IVY_SETTINGS} or"
        f" {REPOSITORIES}."
    )
    return MissingExtra(what, hint=hint, extra="spark")
