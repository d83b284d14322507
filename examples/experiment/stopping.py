"""Being told to stop: SIGTERM ends a program as an error does, so that it can tidy up first."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

STOPPED = "stopped before its end"


@contextmanager
def stoppable() -> Iterator[None]:
    """In here SIGTERM raises SystemExit, once; a second one is passed over."""
    before = signal.signal(signal.SIGTERM, _stopped)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stopped(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # Once is enough: what follows is to be finished.
    sys.exit(STOPPED)
