"""Names in JSON that differ by one sign from what stands in their place elsewhere in a file.

A changed byte can leave JSON whole and yet take a message or a call away, because a reader looks
for a key or a kind that is no longer there. Such a name stands once, and with one sign changed it
is the usual one; it is said, never mended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from mwviz.formats.fields import Json

KINDS = ("role", "type", "event", "source", "kind", "from", "name")
"""Keys whose values are a few words that say what their object is."""
LEAST = 2
"""Times that the usual name has to stand."""
SHORTEST = 3
"""Letters of a name that is no mere label."""
LONGEST = 40
"""Letters of a word that says a kind."""
MOST = 4096
"""Different sets of keys, and words, that are remembered; a file with more has no usual ones."""

Name = tuple[str, ...]


class Misspelt(NamedTuple):
    """A name that stands once, and the usual one in its place."""

    line: int
    odd: str
    usual: str


class Names:
    """Sets of keys and words of kinds, with how often each stands and the line of the first."""

    def __init__(self) -> None:
        self._keys: dict[Name, tuple[int, int]] = {}
        self._words: dict[Name, tuple[int, int]] = {}

    def meet(self, value: Json, line: int) -> None:
        """Count the names within one record."""
        waiting: list[dict[str, Json] | list[Json]] = (
            [value] if isinstance(value, dict | list) else []
        )
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict):
                _count(self._keys, tuple(one), line)
                for key in KINDS:
                    word = one.get(key)
                    if isinstance(word, str) and len(word) <= LONGEST:
                        _count(self._words, (key, word), line)
                waiting.extend(v for v in one.values() if isinstance(v, dict | list))
            # The kinds alone first: most lists are a hundred thousand token ids.
            elif not {dict, list}.isdisjoint(map(type, one)):
                waiting.extend(v for v in one if isinstance(v, dict | list))

    def misspelt(self) -> list[Misspelt]:
        """Names that stand once and are one sign away from a usual one, in order of lines."""
        if max(len(self._keys), len(self._words)) >= MOST:
            return []
        return sorted((*self._odd_keys(), *self._odd_words()))

    def _odd_keys(self) -> Iterator[Misspelt]:
        times: Counter[str] = Counter()
        for keys, (count, _) in self._keys.items():
            times.update(dict.fromkeys(keys, count))
        usual = [key for key, count in times.items() if count >= LEAST]
        for keys, (_, line) in self._keys.items():
            for odd in (key for key in keys if times[key] == 1):
                near = (key for key in usual if key not in keys and _one_apart(odd, key))
                alike = (key for key in near if self._stands_in(key, keys))
                yield from (Misspelt(line, odd, key) for key in islice(alike, 1))

    def _stands_in(self, key: str, keys: Name) -> bool:
        """Whether a key stands elsewhere among at least half of the other keys here."""
        others = set(keys)
        return any(
            key in held and 2 * len(others & set(held)) >= len(keys) - 1 for held in self._keys
        )

    def _odd_words(self) -> Iterator[Misspelt]:
        usual = [name for name, (count, _) in self._words.items() if count >= LEAST]
        for (kind, odd), (count, line) in self._words.items():
            if count == 1:
                near = (word for key, word in usual if key == kind and _one_apart(odd, word))
                yield from (Misspelt(line, odd, word) for word in islice(near, 1))


def _count(seen: dict[Name, tuple[int, int]], name: Name, line: int) -> None:
    times, first = seen.get(name, (0, line))
    if times or len(seen) < MOST:
        seen[name] = (times + 1, first)


def _one_apart(odd: str, usual: str) -> bool:
    """Whether one sign differs; numbers, cases and signs of options differ rightly."""
    if len(odd) != len(usual) or odd == usual:
        return False
    differs = [(a, b) for a, b in zip(odd, usual, strict=True) if a != b]
    if len(differs) != 1:
        return False
    a, b = differs[0]
    named = len(usual) >= SHORTEST and usual.isidentifier()
    return named and not (a.isdigit() and b.isdigit()) and a.lower() != b.lower()
