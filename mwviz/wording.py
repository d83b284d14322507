"""Numbers in words, as every sentence for people has them."""

from __future__ import annotations

from collections.abc import Sequence

SMALLEST = 1e-6
"""Below it a number is told with its power of ten: its zeros could not be counted any more."""
RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
MINUTE = 60
"""Seconds; and of an hour, minutes."""


def digits(number: float, count: int = 2) -> str:
    """A number as people write it: `0.00001`, not `1e-05`; `2·10⁻⁷`, not `2e-07`.

    Args:
        number: any; nan is told as such.
        count: digits that count.
    """
    told = f"{number:.{count}g}"
    if "e" not in told:
        return told
    head, power = told.split("e")
    if int(power) > 0:
        return f"{float(told):,.0f}"
    if abs(number) < SMALLEST:
        return f"{head}·10{str(int(power)).translate(RAISED)}"
    return f"{float(told):.{count - 1 - int(power)}f}".rstrip("0")


def percent(share: float | None, places: int = 0, *, gap: str = " ") -> str:
    """A share as people write it: `77 %`; `-` for a share of nothing.

    Args:
        share: 0 to 1; None where there is nothing to have a share of.
        places: behind the point.
        gap: between number and sign.
    """
    return "-" if share is None else f"{100 * share:.{places}f}{gap}%"


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun, in the singular where it is one.

    Args:
        number: how many.
        one: the noun, with what stands before it: `sampled token`.
        many: its plural; None adds an s.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Sequence[str], last: str = "and", *, most: int | None = None) -> str:
    """Names in words: `a`, `a and b`, `a, b and c`.

    Args:
        names: in order.
        last: the word before the last one.
        most: that are named; of more, how many follow. None names all.
    """
    if most is not None and len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    return f" {last} ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])


def stored(count: int) -> str:
    """The size of a file as people write it: `24 kB`.

    Args:
        count: bytes.
    """
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if count >= 10**power:
            return f"{digits(count / 10**power, 3)} {unit}"
    return counted(count, "byte")


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
