"""The bytes of a trace file to its physical lines; one that is too long is damage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mwviz.formats.unpack import CutError
from mwviz.rollout import Damage

MAX_LINE = 512 << 20
"""Bytes of one line; a longer one is dropped as damage."""
PEEK = 1 << 20
"""Bytes by which a document that spans lines is told from damaged JSON Lines."""


class Line(NamedTuple):
    """One physical line, its end cut off."""

    number: int
    raw: bytes
    last: bool
    """Whether no line end follows it."""


def lines_of(chunks: Iterable[bytes], damage: list[Damage]) -> Iterator[Line]:
    """The lines of a file, one held at a time.

    Args:
        chunks: its plain bytes, in order.
        damage: grows by what is lost: lines that are too long, what a cut archive does not hold.
    """
    number, skipped, held = 1, 0, bytearray()
    try:
        for chunk in chunks:
            *ended, rest = chunk.split(b"\n")
            for piece in ended:
                if skipped:
                    damage.append(_too_long(number, skipped + len(held) + len(piece)))
                else:
                    yield Line(number, bytes(held) + piece, last=False)
                number, skipped, held = number + 1, 0, bytearray()
            held += rest
            if len(held) > MAX_LINE:
                skipped, held = skipped + len(held), bytearray()
    except CutError as error:
        damage.append(Damage(number, 0, str(error), "what came before"))
    if skipped:
        damage.append(_too_long(number, skipped + len(held)))
    elif held:
        yield Line(number, bytes(held), last=True)


def peeked(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines up to some size, enough to tell what kind of text they are."""
    size = 0
    for line in lines:
        yield line
        size += len(line.raw)
        if size > PEEK:
            return


def joined(lines: Iterable[Line]) -> bytes:
    """The text of several lines."""
    return b"\n".join(line.raw for line in lines)


def _too_long(number: int, size: int) -> Damage:
    return Damage(number, size, f"line of more than {MAX_LINE:,} bytes", "nothing")
