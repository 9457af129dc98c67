"""The meaning of the exit codes.

Every error of the library has an exit code (`LakewardError.exit_code`); the command line adds codes
for wrong usage, for errors that the doctor found, for expectations that are not met, for a failed
demo, for maintenance without work or time, and for Ctrl-C.
"""

from __future__ import annotations

from typing import Final

OK: Final = 0
UNEXPECTED: Final = 1
USAGE: Final = 2
UNHEALTHY: Final = 12
DEMO_FAILED: Final = 13
NOTHING_TO_DO: Final = 19
STOPPED: Final = 20
INTERRUPTED: Final = 130

EXITS: Final = {
    OK: "it was done",
    UNEXPECTED: "an error without a code of its own",
    USAGE: "the request is wrong: usage, name, expression, schema, check",
    3: "no such lake, table, version or transaction",
    4: "it exists already",
    5: "conflict with another commit: run it again",
    6: "outcome of a commit unknown: ask with `lakeward outcome`",
    7: "store unusable: unreachable, damaged, too new, read-only, wrong warehouse",
    8: "data or metadata files, or the output, cannot be written or read",
    9: "a published file is not what the log says",
    10: "a table's own metadata cannot be understood",
    11: "an optional library is not installed",
    UNHEALTHY: "doctor found an error, or an expectation or a service level is not kept",
    DEMO_FAILED: "a check of the demo failed",
    14: "a commit hook refused",
    15: "another transaction holds the table: try again later",
    16: "rows could not be staged: run it again",
    17: "a newer instance of the writer took over",
    18: "a step of a pipeline failed",
    NOTHING_TO_DO: "maintenance had nothing to do",
    STOPPED: "maintenance stopped because its budget was spent: run it again",
    INTERRUPTED: "interrupted with Ctrl-C",
}


def table() -> str:
    """Return the exit codes with their meanings as text, one per line."""
    return "\n".join(["Exit codes:", *(f"  {code:>3}  {what}" for code, what in EXITS.items())])
