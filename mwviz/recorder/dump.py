"""A file of JSON lines that callbacks append to, from any thread."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Lock
from typing import Any

from mwviz.errors import TraceError
from mwviz.recorder.secrets import Secrets


class Dump:
    """The file, open for appending; each record is on the disk when `write` returns."""

    def __init__(self, path: str | Path, *, secrets: Secrets | None = None) -> None:
        """Makes the file, or appends to it.

        Raises:
            TraceError: It cannot be written.
        """
        self._secrets = secrets
        self._lock = Lock()
        try:
            self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115  # open while it records
        except OSError as error:
            raise TraceError(f"{path}: cannot be written: {error.strerror}") from error

    def write(self, record: dict[str, Any]) -> None:
        """Appends one record; what is no JSON in it is written as text."""
        plain = json.loads(json.dumps(record, default=str))
        if self._secrets is not None:
            plain = self._secrets.mask(plain).body
        line = json.dumps(plain, ensure_ascii=False) + "\n"
        with self._lock:
            self._file.write(line.encode("utf-8", "replace"))
            os.fsync(self._file.fileno())
