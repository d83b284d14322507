"""Numbers by which the browser tells an order that it has followed already."""

from __future__ import annotations

import time


def after(before: int | None) -> int:
    """The number that follows one of this session; a tab may have followed an earlier session's.

    Args:
        before: the last one; None starts with the milliseconds since 1970.
    """
    return time.time_ns() // 1_000_000 if before is None else before + 1
