"""The order of file names in which a reader of folders expects them."""

from __future__ import annotations

import re

DIGITS = re.compile(r"(\d+)")


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key by which numbers in names count as numbers: `event-9` stands before `event-10`."""
    pieces = DIGITS.split(name)
    return [(1, int(p), "") if p.isdigit() and p.isascii() else (0, 0, p) for p in pieces]
