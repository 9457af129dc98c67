"""The program `lakeward`, also as `python -m lakeward`: ends with 130 after Ctrl-C, at any time."""

from __future__ import annotations

import sys

from lakeward.cli.interrupts import forget_interrupt

_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    try:
        # Importing it takes most of the time of a short command.
        from lakeward.cli.main import main as run

        run()
    except KeyboardInterrupt:
        forget_interrupt()
        sys.stderr.write("error: Interrupted.\n")
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
