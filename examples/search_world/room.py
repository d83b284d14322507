"""How much is run at once: less whenever the device has no memory left for it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import TypeVar

import torch

from mwviz.engine.model import MemoryShortageError, out_of_memory

T = TypeVar("T")


class Room:
    """A size that is halved when it does not fit, and stays so: what is asked for is not lost.

    Args:
        size: to begin with.
        least: below which nothing is tried any more.
        what: is counted, for the message.
    """

    def __init__(self, size: int, *, least: int, what: str) -> None:
        self.size, self._least, self._what = size, least, what

    def fit(self, attempt: Callable[[int], T]) -> T:
        """What an attempt gives with as large a size as fits; it must begin anew each time.

        Raises:
            MemoryShortageError: not even the least size fits.
        """
        while True:
            try:
                return attempt(self.size)
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
                told = str(error).partition("\n")[0]
            # Here the error is gone, and with it the tensors that its frames held.
            if self.size // 2 < self._least:
                raise MemoryShortageError(
                    f"{self.size} {self._what} do not fit in memory, nor do fewer than "
                    f"{self._least} help: {told}"
                )
            self.size //= 2
            print(f"out of memory: from now on {self.size} {self._what} at once", file=sys.stderr)
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
