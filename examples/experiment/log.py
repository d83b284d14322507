"""The file that all arms write to: one JSON line an event, written at once."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple


class Name(NamedTuple):
    """Which arm a line is of."""

    part: str
    arm: str
    seed: int


class Log:
    """Appends lines to a file that all arms share; each is written at once, with its second.

    Args:
        path: of the file; its folder is there.
        name: of the arm that writes.
    """

    def __init__(self, path: Path, name: Name) -> None:
        self.path, self._began = path, time.monotonic()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._head = name._asdict()
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")  # Parts from what a killed arm left half written.

    def write(self, kind: str, **fields: Any) -> None:
        """One line; numbers are rounded to 6 digits. `at`: seconds since the arm began."""
        at = round(time.monotonic() - self._began, 1)
        line = json.dumps({**self._head, "kind": kind, "at": at, **_rounded(fields)})
        os.write(self._file, f"{line}\n".encode())


def _rounded(value: Any) -> Any:
    match value:
        case dict():
            return {key: _rounded(one) for key, one in value.items()}
        case tuple() | list():
            return [_rounded(one) for one in value]
        case bool() | int() | str() | None:
            return value
        case _:
            return float(f"{float(value):.6g}")
