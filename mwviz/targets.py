"""The sampled tokens of a rollout: where each stands in the trie, and what predicts it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mwviz.encoding import Encoding
from mwviz.rollout import Floats, Rollout
from mwviz.trie import Longs, Trie, expand, segment_paths


class Targets(NamedTuple):
    """Every sampled token, by call and offset. M targets."""

    query: Longs
    """int64 (M,): the node before it, -1 if there is none."""
    token: Longs
    """int64 (M,): its node."""
    call: Longs
    """int64 (M,)."""
    offset: Longs
    """int64 (M,): its index in the call's completion."""


def targets_of(trie: Trie, prompt_length: Longs) -> Targets:
    """Every sampled token, by call and offset, with its node and the node before it."""
    length = np.diff(trie.start, append=len(trie.ids))
    empty = np.empty(0, dtype=np.int64)
    parts = [Targets(empty, empty, empty, empty)]
    for call, segments in enumerate(segment_paths(trie.start, trie.parent, trie.tip)):
        first = int(prompt_length[call])
        ends = trie.depth[segments] + length[segments]
        tail = segments[np.searchsorted(ends, first - 1, side="right") :]
        if len(tail) == 0:
            continue
        nodes = expand(trie.start[tail], length[tail])[max(first - 1 - trie.depth[tail[0]], 0) :]
        query = nodes[:-1] if first else np.concatenate(([-1], nodes[:-1]))
        count = len(query)
        parts.append(
            Targets(
                query,
                nodes[len(nodes) - count :],
                np.full(count, call, dtype=np.int64),
                np.arange(count, dtype=np.int64),
            )
        )
    return Targets(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def recorded_logprobs(encoding: Encoding, rollout: Rollout) -> Floats:
    """float32 (M,): what the log has of each sampled token, nats; NaN if it has nothing."""
    parts = [np.empty(0, dtype=np.float32)]
    for call, tokens in zip(rollout.calls, encoding.calls, strict=True):
        missing = np.full(len(tokens.completion), np.nan, dtype=np.float32)
        parts.append(missing if call.logprobs is None else call.logprobs)
    return np.concatenate(parts, dtype=np.float32)
