"""`python -m mwviz` is the command `mwviz`."""

from __future__ import annotations

import sys

from mwviz.cli import main

if __name__ == "__main__":
    sys.exit(main())
