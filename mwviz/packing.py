"""Arrays as one body of bytes with a table of where each stands; ascending numbers take few bytes.

Small numbers (`u8`, `u16`) stand as they are. Others (`u32`, `i32`) stand as differences from the
number before, the first from 0; a difference d as 2d if it is not negative, else as -2d - 1, in
groups of seven bits, the lowest first, each but the last with its eighth bit set (LEB128, zigzag).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = (
    npt.NDArray[np.uint8] | npt.NDArray[np.uint16] | npt.NDArray[np.uint32] | npt.NDArray[np.int32]
)
Sections = dict[str, Array]
PLAIN = {"uint8": "u8", "uint16": "u16"}
DIFFERENCES = {"uint32": "u32", "int32": "i32"}
"""Types of sections, by the dtype of the array."""
BITS = 7
"""Of a number in one byte; the eighth says that more follow."""


class Packed(NamedTuple):
    """Sections one after another."""

    table: dict[str, tuple[str, int, int]]
    """By name: type, offset of the first byte (a multiple of 4), how many entries."""
    body: bytes


def packed(sections: Mapping[str, Array]) -> Packed:
    """All sections in order."""
    table: dict[str, tuple[str, int, int]] = {}
    body = bytearray()
    for name, array in sections.items():
        kind = array.dtype.name
        table[name] = (PLAIN.get(kind) or DIFFERENCES[kind], len(body), len(array))
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        body += little.tobytes() if kind in PLAIN else differences(array)
        body += bytes(-len(body) % 4)
    return Packed(table, bytes(body))


def differences(numbers: Array) -> bytes:
    """Integers as bytes, few of them where neighbours are near."""
    steps = np.diff(numbers.astype(np.int64), prepend=0)
    codes = np.where(steps < 0, -2 * steps - 1, 2 * steps).astype(np.uint64)
    size = np.ones(len(codes), dtype=np.int64)
    for group in range(1, 64 // BITS):
        size += codes >= np.uint64(1 << (BITS * group))
    first = np.cumsum(size) - size
    out = np.zeros(int(size.sum()), dtype=np.uint8)
    for group in range(int(size.max(initial=0))):
        longer = size > group
        part = (codes[longer] >> np.uint64(BITS * group)) & np.uint64(127)
        more = np.where(size[longer] > group + 1, 128, 0)
        out[first[longer] + group] = part.astype(np.uint8) + more.astype(np.uint8)
    return out.tobytes()
