"""Numbers in words, as every sentence for people has them."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun, in the singular where it is one.

    Args:
        number: how many.
        one: the noun, with what stands before it: `sampled token`.
        many: its plural; None adds an s.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
