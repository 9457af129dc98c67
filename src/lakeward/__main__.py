"""`python -m lakeward`: the command line."""

from __future__ import annotations

from lakeward.cli.main import main

if __name__ == "__main__":
    main()
