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
from itertools import chain
from typing import NamedTuple

import numpy as np

from mwviz.encoding import CallTokens, Encoding
from mwviz.entries import Kept
from mwviz.prefix import common_prefix
from mwviz.recurring import Context, Recurring, reaching_spans
from mwviz.runs import WINDOW, Bools, WindowIndex, choose, common_runs, kept_tail, window_hashes
from mwviz.trie import Longs, Trie, expand, node_parents, segment_paths

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
        self.messages = Recurring(trie.ids, self.origin)

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
        context = Context(self.trie, self.length, path)
        old = int(self.trie.depth[path[first_new]])
        asked = max(call.prompt_length - old, 0)
        label = np.full(len(new), -1, dtype=np.int64)
        if asked and held is not None:
            self._give_kept(new[:asked], label, held, old)
        elif asked and index:
            claimed = self._claimed_by(path, first_new)
            self.messages.give(call, context, claimed, label)
            size = self._changed(call, path, label[:asked], anchor) if call.spans else asked
            region = new[: max(min(size, asked - self._opening(call)), 0)]
            self._match_runs(region, claimed, label, index=index, anchor=anchor)
        self._remember_windows(context.nodes(max(old - WINDOW + 1, 0), old), new, label)
        self.messages.remember(call.spans, old, context)

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
        _, reaching = reaching_spans(call.spans, length)
        return sum(length - span.start for span in reaching if span.start < length)

    def _nodes(self, segments: Longs) -> Longs:
        return expand(self.trie.start[segments], self.length[segments])

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
