"""Numbers in words, as every sentence for people has them."""

from __future__ import annotations

SMALLEST = 1e-6
"""Below it a number is told with its power of ten: its zeros could not be counted any more."""
MINUTE = 60
"""Seconds; and of an hour, minutes."""


def digits(number: float) -> str:
    """A number with two digits that count and without a power of ten: `0.00001`, not `1e-05`."""
    told = f"{number:.2g}"
    small = "e-" in told and abs(number) >= SMALLEST
    return f"{float(told):.7f}".rstrip("0") if small else told


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun, in the singular where it is one.

    Args:
        number: how many.
        one: the noun, with what stands before it: `sampled token`.
        many: its plural; None adds an s.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """A time as people say it: `about 9 min`.

    Args:
        seconds: how long; below one it is told as one.
    """
    if seconds < MINUTE:
        return f"about {max(round(seconds), 1)} s"
    minutes = round(seconds / MINUTE)
    hours, rest = divmod(minutes, MINUTE)
    return f"about {hours} h {rest} min" if hours else f"about {minutes} min"
