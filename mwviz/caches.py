"""Which cache every call of a rollout reads, and what it kept: one log's calls to caches.

A cache belongs to one lineage. It is filled anew at the lineage's first call and at each junction
that the log calls a re-prefill; at every other junction it keeps entries (theory, section 2).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mwviz.encoding import CallTokens, Encoding
from mwviz.entries import Kept, kept_ranges, told_ranges, whole
from mwviz.prefix import common_prefix
from mwviz.rollout import Call, Ints, Rollout
from mwviz.semantics import Taken, word_of
from mwviz.trie import Longs, Trie, build_trie


@dataclass(frozen=True, slots=True, eq=False)
class Caches:
    """How the caches of a rollout were treated. C calls."""

    taken: Taken
    of_call: Longs
    """int64 (C,): the cache that each call reads, numbered by first call."""
    kept: tuple[Kept | None, ...] = ()
    """Per call what its cache kept of its lineage's context before, None where it is encoded anew;
    empty if no cache kept anything at a junction."""
    undecided: str = ""
    """Why what a cache held cannot be told; "" if it can."""


def read_caches(encoding: Encoding, rollout: Rollout, lineage: Longs, *, unit_log: bool) -> Caches:
    """The caches of a rollout; without looking at a token if all of it is encoded anew.

    Args:
        encoding: all contexts.
        rollout: says how junctions were treated, and may say what was kept.
        lineage: int64 (C,): which calls follow one another.
        unit_log: whether every id is one token, which decides what was kept.
    """
    if all(word_of(call, rollout) == "re_prefill" for call in rollout.calls):
        return Caches("re_prefill", lineage)
    reading = _Reading(rollout, unit_log=unit_log)
    for call, tokens in enumerate(encoding.calls):
        reading.take(call, tokens, int(lineage[call]))
    return reading.finish(lineage)


@dataclass(eq=False, slots=True)
class _Line:
    """A lineage up to some call."""

    context: Ints
    cache: int
    worn: bool = False
    """Whether its cache has lost something, so that it differs from one filled anew."""


@dataclass(eq=False, slots=True)
class _Reading:
    """Goes through the calls in order."""

    rollout: Rollout
    unit_log: bool
    lines: dict[int, _Line] = field(default_factory=dict)
    of_call: list[int] = field(default_factory=list)
    kept: list[Kept | None] = field(default_factory=list)
    told: set[str] = field(default_factory=set)
    """How junctions were treated."""
    doubts: list[str] = field(default_factory=list)

    def take(self, index: int, tokens: CallTokens, agent: int) -> None:
        """The next call, of one lineage."""
        call, context = self.rollout.calls[index], tokens.context
        line = self.lines.get(agent)
        if line is None:
            self.lines[agent] = _Line(context, self._fresh())
            self.kept.append(None)
        else:
            self.kept.append(self._goes_on(index, call, line, context[: tokens.prompt_length]))
            line.context = context
        self.of_call.append(self.lines[agent].cache)

    def _fresh(self) -> int:
        return max(self.of_call, default=-1) + 1

    def _goes_on(self, index: int, call: Call, line: _Line, prompt: Ints) -> Kept | None:
        word = word_of(call, self.rollout)
        kept = self._kept(index, call, line.context, prompt) if word == "kv_orig" else None
        extends = common_prefix(line.context, prompt) == len(line.context)
        if kept is not None and not _is_whole(kept, line.context):
            self.told.add(word)
            line.worn = True
            return kept
        if extends and not (call.semantics == "re_prefill" and line.worn):
            return whole(len(line.context)) if line.worn else None
        self.told.add(word)
        line.cache, line.worn = self._fresh(), False
        return None

    def _kept(self, index: int, call: Call, before: Ints, prompt: Ints) -> Kept:
        if call.kept is not None:
            told = told_ranges(call.kept, before, prompt)
            if told is not None:
                return told
            self.doubts.append(
                f"the prompt of call {index} does not start with what `kept` says its cache kept "
                f"of the {len(before):,} tokens before"
            )
        found = kept_ranges(before, prompt)
        if found.doubtful and call.kept is None and not self.unit_log:
            self.doubts.append(
                f"the token ids of call {index} do not tell which entries its cache kept (tokens "
                f"that may be one of several: {found.doubtful:,}): record `kept`, the ranges of "
                "the context before that stayed"
            )
        return found

    def finish(self, lineage: Longs) -> Caches:
        """The whole rollout."""
        if "kv_reindex" in self.told:
            return Caches("kv_reindex", lineage)
        if not self.told:
            words = {word_of(call, self.rollout) for call in self.rollout.calls}
            return Caches("kv_orig" if words == {"kv_orig"} else "re_prefill", lineage)
        if self.told == {"re_prefill"}:
            return Caches("re_prefill", lineage)
        taken: Taken = "kv_orig" if self.told == {"kv_orig"} else "mixed"
        of_call = np.array(self.of_call, dtype=np.int64)
        return Caches(taken, of_call, tuple(self.kept), next(iter(self.doubts), ""))


def _is_whole(kept: Kept, context: Ints) -> bool:
    return kept.lead == len(context)


def entry_trie(encoding: Encoding, lineage: Longs, kept: tuple[Kept | None, ...]) -> Trie:
    """The trie of all contexts in which equal text of other entries is another node.

    Args:
        encoding: all contexts.
        lineage: int64 (C,): which calls follow one another.
        kept: what each call's cache kept of the context before.
    """
    labels = _Labels()
    trie = build_trie(
        labels.of(tokens, int(agent), of)
        for tokens, agent, of in zip(encoding.calls, lineage, kept, strict=True)
    )
    return replace(trie, ids=labels.ids(trie.ids))


@dataclass(eq=False, slots=True)
class _Labels:
    """Contexts as labels: a token id, or a negative number for one entry that has moved."""

    latest: dict[int, Ints] = field(default_factory=dict)
    """Labels of each lineage's context."""
    tokens: list[int] = field(default_factory=list)
    """The token id of each negative label."""

    def of(self, tokens: CallTokens, agent: int, kept: Kept | None) -> Ints:
        """int32 (P + O,): labels of the next context of a lineage."""
        context, before = tokens.context, self.latest.get(agent)
        if before is None:
            found = context
        elif kept is None:
            size = common_prefix(self.ids(before), context[: tokens.prompt_length])
            found = np.concatenate((before[:size], context[size:]))
        else:
            found = self._going_on(before, kept, context, tokens.prompt_length)
        self.latest[agent] = found
        return found

    def _going_on(self, before: Ints, kept: Kept, context: Ints, prompt_length: int) -> Ints:
        if _is_whole(kept, before):
            return np.concatenate((before, context[len(before) :]))
        stays, lead = before[kept.places], kept.lead
        rest = context[len(stays) :].copy()
        if len(stays) < prompt_length:
            rest[:1] = self._new(rest[:1])
        moved = stays[lead:].copy()
        moved[moved >= 0] = self._new(moved[moved >= 0])
        return np.concatenate((stays[:lead], moved, rest))

    def _new(self, ids: Ints) -> Ints:
        first = len(self.tokens)
        self.tokens += ids.tolist()
        return -np.arange(first + 1, len(self.tokens) + 1, dtype=np.int32)

    def ids(self, labels: Ints) -> Ints:
        """int32: the token id of every label."""
        found, own = labels.copy(), labels < 0
        if own.any():
            found[own] = np.array(self.tokens, dtype=np.int32)[-labels[own] - 1]
        return found
