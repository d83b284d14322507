"""Which node every token first appeared at: what makes a re-encoded token a copy of its owner.

Rules of the theory, section 1. Completion tokens are always new; only what a prompt shows is
looked up: whole messages first, then runs of tokens (in a log of messages only inside those that a
junction changed, in a log of tokens everywhere). Three refinements of the rule of runs keep text
that a log repeats word for word apart: the tail of the lineage's previous context is looked for
before longer runs elsewhere; the tokens that end every prompt (the generation prompt) belong to
the completion they open, so they are never copies; and a run may pass from one earlier context
into another that shares the tokens at the seam: every eight of it stood together somewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np

from mwviz.entries import Kept
from mwviz.rollout import Ints, Span
from mwviz.runs import WINDOW, Bools, WindowIndex, choose, common_runs, kept_tail, window_hashes
from mwviz.tokens import CallTokens, Encoding
from mwviz.trie import Longs, Trie, common_prefix, expand, node_parents, segment_paths

LONGEST_GENERATION_PROMPT = 16
"""Tokens a chat template may put before a completion; no known one needs more."""


def is_unit_log(encoding: Encoding) -> bool:
    """Whether every id stands for one unit: none occurs twice in any context, no messages known."""
    return not any(call.spans for call in encoding.calls) and all(
        len(np.unique(context)) == len(context)
        for context in (call.context for call in encoding.calls)
    )


def unit_origins(trie: Trie) -> Longs:
    """int64 (N,): in a log of units, the first node that showed the same id."""
    born = np.lexsort((_positions(trie), np.repeat(trie.first_call, _lengths(trie))))
    _, first, which = np.unique(trie.ids[born], return_index=True, return_inverse=True)
    origin = np.empty(len(born), dtype=np.int64)
    origin[born] = born[first[which]]
    return origin


def token_origins(
    trie: Trie, encoding: Encoding, lineage: Longs, *, kept: Sequence[Kept | None] = ()
) -> Longs:
    """int64 (N,): origin of every node of a token or message log.

    Args:
        trie: of all contexts.
        encoding: the same contexts as tokens and messages.
        lineage: int64 (C,): which calls follow one another.
        kept: per call what a cache kept of its lineage's context before: all behind that is new,
            whatever older text it repeats. None or empty: nothing is known of a cache.
    """
    search = _Search(trie, generation_prompt(encoding))
    paths = segment_paths(trie.start, trie.parent, trie.tip)
    latest: dict[int, int] = {}
    before: dict[int, Longs] = {}
    for index, (call, path) in enumerate(zip(encoding.calls, paths, strict=True)):
        agent = int(lineage[index])
        own = kept[index] if kept else None
        held = None if own is None else _Held(before[agent], own)
        search.visit(index, call, path, anchor=latest.get(agent, -1), held=held)
        latest[agent], before[agent] = int(trie.tip[index]), path
    return search.origin


def generation_prompt(encoding: Encoding) -> int:
    """Tokens that end every prompt of a token log: the template's opening of a completion.

    0 if messages are known (they say it themselves) or fewer than two prompts differ.
    """
    if any(call.spans for call in encoding.calls):
        return 0
    tails = {call.prompt_tail(LONGEST_GENERATION_PROMPT).tobytes() for call in encoding.calls}
    if len(tails) < 2:  # noqa: PLR2004
        return 0
    arrays = [np.frombuffer(tail, dtype=np.int32)[::-1] for tail in tails]
    return min(common_prefix(arrays[0], other) for other in arrays[1:])


def _lengths(trie: Trie) -> Longs:
    return np.diff(trie.start, append=len(trie.ids))


def _positions(trie: Trie) -> Longs:
    return np.arange(len(trie.ids)) - np.repeat(trie.start - trie.depth, _lengths(trie))


class _Held(NamedTuple):
    """What a cache kept of a lineage's context before."""

    path: Longs
    """int64: segments of that context."""
    kept: Kept


@dataclass(eq=False, slots=True)
class _Occurrence:
    """One appearance of a message: the tokens it showed and where each first stood."""

    ids: Ints
    origins: Longs
    after: set[int] = field(default_factory=set)
    """First origins of the messages it followed."""


class _Context:
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


class _Search:
    """Walks the calls in order, giving every new node its origin."""

    def __init__(self, trie: Trie, opening: int) -> None:
        self.trie = trie
        self.opening = opening
        self.length = _lengths(trie)
        self.origin = np.arange(len(trie.ids), dtype=np.int64)
        self.parent = node_parents(trie.start, self.length, trie.parent)
        self.windows = WindowIndex()
        self._path: Longs = np.empty(0, dtype=np.int64)
        self._marked = 0
        self._claimed: Bools = np.zeros(len(trie.ids), dtype=bool)
        self.messages: dict[str, list[_Occurrence]] = {}
        self.contents: dict[bytes, list[_Occurrence]] = {}

    def visit(
        self,
        index: int,
        call: CallTokens,
        path: Longs,
        *,
        anchor: int,
        held: _Held | None,
    ) -> None:
        """Find the origins of the nodes that one call added, then remember them.

        Args:
            index: the call.
            call: its tokens.
            path: int64, its segments from the root to its tip.
            anchor: last node of the lineage's previous context, -1 if there is none.
            held: what a cache kept of that context; None if nothing is known of one.
        """
        first_new = int(np.searchsorted(self.trie.first_call[path] == index, 1))
        new = self._nodes(path[first_new:])
        if len(new) == 0:
            return
        context = _Context(self.trie, self.length, path)
        old = int(self.trie.depth[path[first_new]])
        asked = max(call.prompt_length - old, 0)
        label = np.full(len(new), -1, dtype=np.int64)
        if asked and held is not None:
            self._give_kept(new[:asked], label, held, old)
        elif asked and index:
            claimed = self._claimed_by(path, first_new)
            self._match_messages(call, context, claimed, label)
            size = self._changed(call, path, label[:asked], anchor) if call.spans else asked
            region = new[: max(min(size, asked - self._opening(call)), 0)]
            self._match_runs(region, claimed, label, index=index, anchor=anchor)
        self._remember_windows(context.nodes(max(old - WINDOW + 1, 0), old), new, label)
        self._remember_messages(call.spans, old, context)

    def _claimed_by(self, path: Longs, size: int) -> Bools:
        """Bool (N,): origins that the first `size` segments of a path show.

        It is kept for a context that goes on from this one, which then costs its new part alone:
        whatever is marked as a prompt is matched, that prompt shows.
        """
        done = self._marked
        if not np.array_equal(path[: len(self._path)], self._path):
            self._claimed[:] = False
            done = 0
        self._claimed[self.origin[self._nodes(path[done:size])]] = True
        self._path, self._marked = path, size
        return self._claimed

    def _changed(self, call: CallTokens, path: Longs, label: Longs, anchor: int) -> int:
        """How many of a prompt's new tokens stand in changed messages, and may quote old text.

        None if the prompt extends the previous context or starts a lineage; else all up to the
        kept tail, or all if no tail was kept.
        """
        last = np.searchsorted(self.trie.start, anchor, side="right") - 1
        size = self.trie.depth[last] + self.length[last]
        if anchor < 0 or (last in path and size <= call.prompt_length):
            return 0
        kept = np.flatnonzero(label >= 0)
        return int(kept[-1]) + 1 if len(kept) else len(label)

    def _opening(self, call: CallTokens) -> int:
        """Tokens at the end of a prompt that belong to the completion they open."""
        if not call.spans:
            return self.opening
        length = call.prompt_length
        _, reaching = _reaching(call.spans, length)
        return sum(length - span.start for span in reaching if span.start < length)

    def _nodes(self, segments: Longs) -> Longs:
        return expand(self.trie.start[segments], self.length[segments])

    def _match_messages(
        self, call: CallTokens, context: _Context, claimed: Bools, label: Longs
    ) -> None:
        """Give whole messages that appeared before their old origins."""
        old = call.prompt_length + len(call.completion) - len(label)
        follows = -1
        before, reaching = _reaching(call.spans, old)
        if before is not None:
            follows = int(self.origin[context.node(before.start)])
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
                self.origin[nodes[skipped:size][free]] = old_place[free]
                claimed[old_place] = True
                at = span.start - old
                label[at + skipped : at + size] = len(self.origin) + position
            follows = int(self.origin[nodes[0]])

    def _occurrences(
        self, span: Span, nodes: Longs, claimed: Bools, skipped: int
    ) -> list[_Occurrence]:
        """Earlier appearances of a message that this prompt does not show yet.

        By id, else by role and content. The first `skipped` tokens are old nodes: there the trie
        has decided.
        """
        ids = self.trie.ids[nodes]
        same = self.messages.get(span.message)
        if same is None and not skipped:
            same = self.contents.get(_content(span, ids))
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
        after = self.messages.get(following, ()) if following is not None else ()
        before_next = {first for seen in after for first in seen.after}
        return max(
            reversed(found),
            key=lambda seen: (follows in seen.after, int(seen.origins[0]) in before_next),
        )

    def _match_runs(
        self, new: Longs, claimed: Bools, label: Longs, *, index: int, anchor: int
    ) -> None:
        """Give runs of at least `WINDOW` tokens that appeared before their old origins."""
        hits = self.windows.find(window_hashes(self.trie.ids[new]))
        keep = ~claimed[self.origin[hits.node]] & (label[hits.end] < 0)
        hits = hits._replace(end=hits.end[keep], node=hits.node[keep])
        if len(hits.end) == 0:
            return
        runs = common_runs(hits, self.origin, self.parent)
        free = label[: len(new)] < 0
        tail = kept_tail(runs, int(self.origin[anchor])) if anchor >= 0 else []
        chosen = chain(
            choose(tail, free, claimed, lambda _: 0),
            choose(runs, free, claimed, lambda origin: self._last_seen(origin, index)),
        )
        for serial, run in enumerate(chosen):
            span = slice(run.start, run.start + len(run.origins))
            self.origin[new[span]] = run.origins
            label[span] = serial

    def _give_kept(self, new: Longs, label: Longs, held: _Held, old: int) -> None:
        """Give what a cache kept of the context before; the rest is new.

        Args:
            new: int64: the prompt's new nodes.
            label: int64, as long or longer: the run a node continues, -1 for new ones; changed.
            held: what was kept.
            old: tokens of the prompt in front of the new ones.
        """
        places = held.kept.places[old : old + len(new)]
        if len(places):
            self.origin[new[: len(places)]] = self.origin[self._nodes(held.path)[places]]
            label[: len(places)] = np.cumsum(np.diff(places, prepend=places[0] - 1) != 1)

    def _last_seen(self, origin: int, index: int) -> int:
        """The latest call before `index` whose context held this origin."""
        nodes = np.flatnonzero(self.origin == origin)
        exits = self.trie.exit[np.searchsorted(self.trie.start, nodes, side="right") - 1]
        tips = self.trie.tip[:index]
        held = (nodes[:, None] <= tips) & (tips < exits[:, None])
        return int(np.flatnonzero(held.any(axis=0))[-1])

    def _remember_windows(self, lead: Longs, new: Longs, label: Longs) -> None:
        """Index the windows that end in new nodes, but for those inside one repeated run."""
        path = np.concatenate((lead, new))
        if len(path) < WINDOW:
            return
        run = np.concatenate((np.full(len(lead), -1), label))
        repeats = (run[: -WINDOW + 1] == run[WINDOW - 1 :]) & (run[WINDOW - 1 :] >= 0)
        hashes = window_hashes(self.trie.ids[path])
        self.windows.add(hashes[~repeats], path[WINDOW - 1 :][~repeats])

    def _remember_messages(self, spans: Sequence[Span], old: int, context: _Context) -> None:
        """Record the appearances of messages that reach into the new nodes."""
        before, reaching = _reaching(spans, old)
        previous = -1 if before is None else int(self.origin[context.node(before.start)])
        for span in reaching:
            nodes = context.nodes(span.start, span.end)
            if len(nodes) == 0:
                continue
            origins = self.origin[nodes]
            self._remember(span, self.trie.ids[nodes], origins, previous)
            previous = int(origins[0])

    def _remember(self, span: Span, ids: Ints, origins: Longs, after: int) -> None:
        known = self.messages.setdefault(span.message, [])
        for index, seen in enumerate(known):
            if seen.origins[0] == origins[0]:
                seen.after.add(after)
                if len(origins) > len(seen.origins):
                    seen.ids, seen.origins = ids, origins
                known.append(known.pop(index))
                return
        new = _Occurrence(ids, origins, {after})
        known.append(new)
        self.contents.setdefault(_content(span, ids), []).append(new)


def _reaching(spans: Sequence[Span], old: int) -> tuple[Span | None, list[Span]]:
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
