"""Whether the history of one table's log is linearizable: two checkers for one question.

A commit takes the next version, a read sees the newest one. The operations took effect one after
the other, each between its call and its return, exactly if sorting them by version never puts an
operation behind one that was called only after it had returned. The first checker does just that.
The second hands the history to Porcupine, which knows nothing of versions but a model of the log.
"""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import pytest


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that a client did, by a clock that all clients share.

    Attributes:
        client: Who; does one thing at a time.
        kind: `commit` takes a version, `read` sees one.
        version: Which.
        called: When the client began.
        returned: When it had the answer.
    """

    client: int
    kind: Literal["commit", "read"]
    version: int
    called: int
    returned: int


def violation(history: Iterable[Operation], *, base: int = 0) -> str | None:
    """Why the history is not linearizable, or None when it is.

    Args:
        history: All operations, in any order.
        base: The version of the table before the first of them.
    """
    operations = list(history)
    versions = sorted(o.version for o in operations if o.kind == "commit")
    wanted = list(range(base + 1, base + 1 + len(versions)))
    if versions != wanted:
        wrong = next(v for v, w in zip(versions, wanted, strict=True) if v != w)
        return f"versions are not unique and gap-free: found {wrong} out of turn"
    newest = max(versions, default=base)
    stray = next((o for o in operations if not base <= o.version <= newest), None)
    if stray is not None:
        return f"{stray} saw a version that nobody committed"
    # Reads of a version come after its commit, and among themselves in any order: take the calls'.
    operations.sort(key=lambda o: (o.version, o.kind == "read", o.called))
    latest: Operation | None = None
    for operation in operations:
        if latest is not None and operation.returned < latest.called:
            return f"{operation} returned before {latest} was called, which must come first"
        if latest is None or operation.called > latest.called:
            latest = operation
    return None


def porcupine_accepts(history: Iterable[Operation], *, base: int = 0) -> bool:
    """Whether Porcupine finds the history linearizable; skips the test without Go."""
    if shutil.which("go") is None:
        pytest.skip("Porcupine needs Go on the PATH")
    program = _built()
    text = json.dumps({"base": base, "operations": [asdict(o) for o in history]})
    done = subprocess.run([program], input=text, capture_output=True, text=True, timeout=600)
    if done.returncode not in (0, 1):
        message = f"Porcupine failed: {done.stderr}"
        raise RuntimeError(message)
    return done.returncode == 0


@cache
def _built() -> Path:
    source = Path(__file__).parent / "porcupine"
    program = Path(tempfile.mkdtemp(prefix="lakeward-porcupine-")) / "porcupine"
    atexit.register(shutil.rmtree, program.parent)
    done = subprocess.run(
        ["go", "build", "-o", program, "."], cwd=source, capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        pytest.skip(f"Porcupine could not be fetched or built: {done.stderr.splitlines()[-1]}")
    return program
