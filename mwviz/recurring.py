"""Messages that a rollout shows again: by id, else by role and content (theory, section 1).

Letters: N nodes of the trie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mwviz.encoding import CallTokens
from mwviz.rollout import Ints, Span
from mwviz.runs import Bools
from mwviz.trie import Longs, Trie, expand


class Context:
    """The nodes of one context by position, without expanding all of it."""

    def __init__(self, trie: Trie, length: Longs, path: Longs) -> None:
        self._start, self._length = trie.start[path], length[path]
        self._depth = trie.depth[path]

    def nodes(self, start: int, end: int) -> Longs:
        """int64 (end - start,): nodes of the positions from `start` up to `end`."""
        if start >= end:
            return np.empty(0, dtype=np.int64)
        first, last = np.searchsorted(self._depth, (start, end - 1), side="right") - (1, 0)
        nodes = expand(self._start[first:last], self._length[first:last])
        skipped = start - int(self._depth[first])
        return nodes[skipped : skipped + end - start]

    def node(self, position: int) -> int:
        """The node of one position."""
        return int(self.nodes(position, position + 1)[0])


@dataclass(eq=False, slots=True)
class _Occurrence:
    """One appearance of a message: the tokens it showed and where each first stood."""

    ids: Ints
    origins: Longs
    after: set[int] = field(default_factory=set)
    """First origins of the messages it followed."""


class Recurring:
    """Every message that was shown, and where its tokens first stood."""

    def __init__(self, ids: Ints, origin: Longs) -> None:
        """Knows no message yet; `origin` (N,) is read, and written for what recurs."""
        self._ids, self._origin = ids, origin
        self._messages: dict[str, list[_Occurrence]] = {}
        self._contents: dict[bytes, list[_Occurrence]] = {}

    def give(self, call: CallTokens, context: Context, claimed: Bools, label: Longs) -> None:
        """Give whole messages of a prompt that appeared before their old origins.

        Args:
            call: its tokens and messages.
            context: its nodes.
            claimed: bool (N,): origins that the prompt shows so far; changed.
            label: int64: a serial number of what each new node repeats, -1 for none; changed.
        """
        old = call.prompt_length + len(call.completion) - len(label)
        follows = -1
        before, reaching = reaching_spans(call.spans, old)
        if before is not None:
            follows = int(self._origin[context.node(before.start)])
        inside = [s for s in reaching if s.end <= call.prompt_length]
        for position, span in enumerate(inside):
            nodes = context.nodes(span.start, span.end)
            skipped = max(old - span.start, 0)
            following = inside[position + 1].message if span is not inside[-1] else None
            found = self._occurrences(span, nodes[skipped:], claimed, skipped)
            copied = self._latest(found, follows, following)
            if copied is not None:
                size = min(len(nodes), len(copied.origins))
                old_place = copied.origins[skipped:size]
                free = ~claimed[old_place]
                self._origin[nodes[skipped:size][free]] = old_place[free]
                claimed[old_place] = True
                at = span.start - old
                label[at + skipped : at + size] = len(self._origin) + position
            follows = int(self._origin[nodes[0]])

    def _occurrences(
        self, span: Span, nodes: Longs, claimed: Bools, skipped: int
    ) -> list[_Occurrence]:
        """Earlier appearances of a message that this prompt does not show yet.

        By id, else by role and content. The first `skipped` tokens are old nodes: there the trie
        has decided.
        """
        ids = self._ids[nodes]
        same = self._messages.get(span.message)
        if same is None and not skipped:
            same = self._contents.get(_content(span, ids))
        return [
            seen
            for seen in same or ()
            if len(seen.origins) > skipped
            and not claimed[seen.origins[skipped]]
            and _starts_alike(seen.ids[skipped:], ids)
        ]

    def _latest(
        self, found: list[_Occurrence], follows: int, following: str | None
    ) -> _Occurrence | None:
        """The appearance that had the same neighbours, else the latest."""
        if len(found) <= 1:
            return found[0] if found else None
        after = self._messages.get(following, ()) if following is not None else ()
        before_next = {first for seen in after for first in seen.after}
        return max(
            reversed(found),
            key=lambda seen: (follows in seen.after, int(seen.origins[0]) in before_next),
        )

    def remember(self, spans: Sequence[Span], old: int, context: Context) -> None:
        """Record the appearances of messages that reach into the new nodes."""
        before, reaching = reaching_spans(spans, old)
        previous = -1 if before is None else int(self._origin[context.node(before.start)])
        for span in reaching:
            nodes = context.nodes(span.start, span.end)
            if len(nodes) == 0:
                continue
            origins = self._origin[nodes]
            self._remember(span, self._ids[nodes], origins, previous)
            previous = int(origins[0])

    def _remember(self, span: Span, ids: Ints, origins: Longs, after: int) -> None:
        known = self._messages.setdefault(span.message, [])
        for index, seen in enumerate(known):
            if seen.origins[0] == origins[0]:
                seen.after.add(after)
                if len(origins) > len(seen.origins):
                    seen.ids, seen.origins = ids, origins
                known.append(known.pop(index))
                return
        new = _Occurrence(ids, origins, {after})
        known.append(new)
        self._contents.setdefault(_content(span, ids), []).append(new)


def reaching_spans(spans: Sequence[Span], old: int) -> tuple[Span | None, list[Span]]:
    """The spans with tokens behind the first `old`, and the last span with tokens before these."""
    found: list[Span] = []
    for span in reversed(spans):
        if span.start == span.end:
            continue
        if span.end <= old:
            return span, found[::-1]
        found.append(span)
    return None, found[::-1]


def _content(span: Span, ids: Ints) -> bytes:
    """Role and content of a message: equal for messages that say the same."""
    return span.role.encode() + b"\0" + ids.tobytes()


def _starts_alike(left: Ints, right: Ints) -> bool:
    size = min(len(left), len(right))
    return bool(np.array_equal(left[:size], right[:size]))
