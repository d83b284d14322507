"""Which keys of a row were computed from other keys than the true ones: the recursive flag.

Letters: K atoms in the order of a row, up to the one whose tokens are predicted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.births import NEVER, Cache
from mwviz.trie import Longs

Bools = npt.NDArray[np.bool_]


class Keys(NamedTuple):
    """Atoms of a row, the last one being the targets' own."""

    before: Longs
    """int64 (K,): tokens of the row before each atom."""
    until: Longs
    """int64 (K,): first query of the row that no longer sees it."""
    atom: Longs
    """int64 (K,)."""
    position: Longs
    """int64 (K,): position id of its first token."""

    def seen_by(self, key: int) -> Longs:
        """int64: the atoms that one atom saw when it was computed."""
        before = self.before[key]
        return np.flatnonzero((self.before[:key] < before) & (self.until[:key] > before))


def parted(atom: Longs, position: Longs, true_atom: Longs, true_position: Longs) -> int:
    """First true position at which a seen sequence differs, by token or by distance.

    Where a key saw just what stands before it in the sequence that its target sees, all from
    there on are tainted.
    """
    size = min(len(atom), len(true_atom))
    drift = position[:size] - true_position[:size]
    differs = (atom[:size] != true_atom[:size]) | (drift != drift[:1])
    if differs.any():
        return int(true_position[differs.argmax()])
    return int(true_position[size]) if size < len(true_atom) else NEVER


def tainted_in_context(keys: Keys, true_at: Longs, size: Longs) -> Bools:
    """Bool (K,): atoms that saw something else than the true context in front of them.

    Args:
        keys: the row; a key may have seen what its target no longer sees.
        true_at: int64 (atoms,): position of each atom in the targets' context, -1 if not in it.
        size: int64 (atoms,): tokens of each.
    """
    at = true_at[keys.atom]
    shift, length = keys.position - at, size[keys.atom]
    tainted = np.zeros(len(at), dtype=bool)
    for key in range(len(at)):
        saw = keys.seen_by(key)
        wrong = (at[saw] < 0) | (at[saw] >= at[key]) | (shift[saw] != shift[key])
        short = int(length[saw].sum()) != int(at[key])
        tainted[key] = short or tainted[saw].any() or wrong.any()
    return tainted


def tainted_in_cache(keys: Keys, cache: Cache) -> Bools:
    """Bool (K,): atoms that saw something else than the cache held when they were born."""
    tainted = np.zeros(len(keys.atom), dtype=bool)
    for key in range(len(keys.atom)):
        tainted[key] = saw_another_cache(keys, key, cache, tainted)
    return tainted


def saw_another_cache(keys: Keys, key: int, cache: Cache, tainted: Bools) -> bool:
    """Whether one atom saw something else than the cache held when it was born.

    Args:
        keys: the row.
        key: which of them.
        cache: what it held.
        tainted: bool: the answer for every key in front of it.
    """
    atom, saw = keys.atom[key], keys.seen_by(key)
    own = cache.place[atom]
    true = np.flatnonzero((cache.place < own) & (cache.alive_until > own))
    if own < 0 or len(saw) != len(true) or tainted[saw].any():
        return True
    shift = keys.position[saw] - cache.place[keys.atom[saw]]
    moved = (shift != keys.position[key] - own).any()
    return bool(moved or not np.array_equal(np.sort(keys.atom[saw]), true))
