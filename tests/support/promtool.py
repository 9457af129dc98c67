"""promtool and Prometheus: the ones on the path, or those of Debian's package, unpacked."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.support.servers import Unobtainable

_PATIENCE_SECONDS = 120
_TOOLS: Final = Path(__file__).parents[2] / ".tools"


def program(name: str) -> Path:
    """The path of `promtool` or `prometheus`.

    Raises:
        Unobtainable: It is not installed, and Debian's package cannot be downloaded.
    """
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    place = _TOOLS / "prometheus"
    if not (place / "usr" / "bin" / name).exists():
        _unpack(place)
    return place / "usr" / "bin" / name


def _unpack(place: Path) -> None:
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg-deb")
    if apt is None or dpkg is None:
        message = "promtool is not installed, and this is no Debian to get it from."
        raise Unobtainable(message)
    place.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as work:
        try:
            _run([apt, "download", "prometheus"], work)
            (package,) = Path(work).glob("prometheus_*.deb")
            _run([dpkg, "-x", str(package), "files"], work)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            message = f"promtool is not installed, and Debian's package cannot be had: {error}"
            raise Unobtainable(message) from error
        if not place.exists():
            # Another process may have been first.
            Path(work, "files").rename(place)


def _run(command: list[str], directory: str) -> None:
    subprocess.run(
        command, cwd=directory, check=True, capture_output=True, timeout=_PATIENCE_SECONDS
    )
