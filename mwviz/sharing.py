"""Sequences that grow from one another and hold their common start once.

The prompts of a rollout mostly extend each other: kept as tuples they take memory quadratic in its
calls, kept as `Shared` no more than the rollout's text has messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import is_
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Shared(Sequence[T], Generic[T]):
    """A sequence that reads like a tuple; it is equal to a tuple or list of the same items."""

    __slots__ = ("_size", "_store")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._store: list[T] = list(items)
        """Items of this sequence, then those of the longest one that grew from it."""
        self._size = len(self._store)

    def extended(self, items: Iterable[T], *, same: Callable[[T, T], bool] = is_) -> Shared[T]:
        """This sequence with items behind it.

        It shares the store with all that grew from here the same way; a second way to go on is
        a copy.

        Args:
            items: to stand behind.
            same: whether an item that stands there already is the one to be added.
        """
        new = list(items)
        store, size = self._store, self._size
        held = min(len(store) - size, len(new))
        if not all(same(store[size + at], new[at]) for at in range(held)):
            store, held = store[:size], 0
        store.extend(new[held:])
        return _of(store, size + len(new))

    def shares(self, other: Sequence[T]) -> bool:
        """Whether the other sequence holds its items in the same store."""
        return isinstance(other, Shared) and other._store is self._store

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T]:
        return islice(self._store, self._size)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        if isinstance(at, slice):
            return tuple(self._store[i] for i in range(*at.indices(self._size)))
        if not -self._size <= at < self._size:
            raise IndexError(f"index {at} of {self._size} items")
        return self._store[at if at >= 0 else self._size + at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shared | tuple | list):
            return NotImplemented
        return len(other) == self._size and begins(other, self)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def begins(items: Sequence[T], start: Sequence[T]) -> bool:
    """Whether a sequence begins with all items of another; at once where both share a store."""
    if len(items) < len(start):
        return False
    if isinstance(start, Shared) and start.shares(items):
        return True
    return all(a is b or a == b for a, b in zip(start, items, strict=False))


def _of(store: list[T], size: int) -> Shared[T]:
    """The first `size` items of a store, not copied."""
    grown: Shared[T] = Shared.__new__(Shared)
    grown._store, grown._size = store, size
    return grown


class Sharing(Generic[T]):
    """Hands out sequences that share their start with the latest one of the same name."""

    def __init__(self) -> None:
        self._latest: dict[str | None, Shared[T]] = {}

    def __call__(self, name: str | None, items: Sequence[T]) -> Shared[T]:
        """The items as a sequence that goes on from the latest one of that name, if it can."""
        latest: Shared[T] = self._latest.get(name, Shared())
        if len(latest) and begins(items, latest):
            found = latest.extended(items[len(latest) :])
        else:
            found = Shared(items)
        self._latest[name] = found
        return found
