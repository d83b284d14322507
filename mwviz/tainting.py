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

    An atom is right if it saw as many tokens as stand before it, and all atoms before it, each
    right and at its distance: so in the order of the context all are tainted from the first wrong
    one on, and that one is found without looking at pairs.

    Args:
        keys: the row; a key may have seen what its target no longer sees.
        true_at: int64 (atoms,): position of each atom in the targets' context, -1 if not in it.
        size: int64 (atoms,): tokens of each.
    """
    own = len(keys.atom) - 1
    twice = (
        own and keys.atom[own - 1] == keys.atom[own] and keys.before[own - 1] == keys.before[own]
    )
    row = Keys(*(np.delete(column, own - 1) for column in keys)) if twice else keys
    at = true_at[row.atom]
    order = np.argsort(at, kind="stable")
    order = order[np.searchsorted(at[order], 0) :]
    if (np.diff(at[order]) == 0).any() or (np.diff(row.before) <= 0).any():
        return tainted_key_by_key(keys, true_at, size)
    wrong = _first_wrong(row, order, at, size[row.atom])
    all_at = true_at[keys.atom]
    return (all_at < 0) | (all_at >= wrong)


def _first_wrong(keys: Keys, order: Longs, at: Longs, length: Longs) -> int:
    """The first true position whose atom is tainted; `NEVER` if none is.

    Args:
        keys: each atom once, in the order of the row.
        order: int64: the atoms of the context, in its order.
        at: int64 (K,): position of each in the context, -1 if not in it.
        length: int64 (K,): tokens of each.
    """
    until = np.maximum(keys.until, keys.before + 1)
    left = np.argsort(until, kind="stable")
    gone = np.searchsorted(until[left], keys.before, side="right")
    saw = (np.cumsum(length) - length) - np.append(0, np.cumsum(length[left]))[gone]
    before, true = keys.before[order], at[order]
    shift = keys.position[order] - true
    wrong = (np.cumsum(length[order]) - length[order] != true) | (saw[order] != true)
    wrong |= shift != shift[:1]
    wrong[1:] |= np.maximum.accumulate(before)[:-1] >= before[1:]
    wrong[1:] |= np.minimum.accumulate(until[order])[:-1] <= before[1:]
    return int(true[wrong.argmax()]) if wrong.any() else NEVER


def tainted_key_by_key(keys: Keys, true_at: Longs, size: Longs) -> Bools:
    """The same, for rows that show an atom twice or out of order; quadratic in K."""
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
