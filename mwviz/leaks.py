"""What one target sees too much or misses under a view: the text behind its pair counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mwviz.analysis import Analysis
from mwviz.births import BirthAxis, cut_birth_axis
from mwviz.judging import AGREE, CLASSES, Block, blocks
from mwviz.trie import Longs, expand

LEAKING = ("future", "stale", "foreign")
"""Classes of text that the view shows and the token never saw."""
MISSING = ("erased", "lost")
"""Classes of text that the token saw and the view does not show."""


class KeySpan(NamedTuple):
    """Consecutive text of one message, of one class for one target."""

    name: str
    """The pair class."""
    tokens: int
    call: int
    """The call in which it was born: sampled, or first sent."""
    sampled: bool
    """Whether that call sampled it."""
    kind: str
    """What the log calls the message; "" if it does not say."""
    first_node: int
    """Node at which its first token was born."""
    text: str
    """As in the trace."""

    @property
    def leaks(self) -> bool:
        """True for text the view shows too much, False for text it lacks."""
        return self.name in LEAKING

    @property
    def place(self) -> str:
        """What it is and where it was born, without its text."""
        born = f"{'sampled in' if self.sampled else ''} call {self.call:,}".strip()
        return f"{self.kind.replace('_', ' ')}, {born}" if self.kind else born


def sources(analysis: Analysis, view: str, target: int) -> tuple[KeySpan, ...]:
    """What one target sees too much or misses under a view, the longest first.

    A target that trains more than once has the spans of each of its loss terms.

    Args:
        analysis: of the rollout.
        view: a method's name.
        target: index of the target; one that the view does not cover has no sources.
    """
    laid = analysis.view(view)
    axis = cut_birth_axis(analysis.tree, laid)
    terms = [block for block in blocks(axis, laid) if target in block.targets]
    spans = [span for block in terms for span in _spans(analysis, axis, block)]
    return tuple(sorted(spans, key=lambda span: -span.tokens))


class Reach(NamedTuple):
    """One target that a piece of text leaks into, or is missing from."""

    target: int
    name: str
    """The pair class."""
    tokens: int
    """Tokens of the text that are of this class for the target."""


def reaches(analysis: Analysis, view: str, nodes: Longs) -> tuple[Reach, ...]:
    """Every target for which some text is in the wrong place under a view, in target order.

    Args:
        analysis: of the rollout.
        view: a method's name.
        nodes: int64, nodes of the text; a copy stands for its owner.
    """
    laid = analysis.view(view)
    axis = cut_birth_axis(analysis.tree, laid)
    inside = np.zeros(len(analysis.tree.birth), dtype=np.int64)
    inside[axis.rank[nodes]] = 1
    share = np.diff(np.append(0, np.cumsum(inside))[axis.cut])
    found: dict[tuple[int, str], int] = {}
    for block in blocks(axis, laid):
        weight = np.bincount(block.kind, weights=share[block.keys], minlength=len(CLASSES))
        for kind in np.flatnonzero(weight):
            if kind != AGREE:
                for target in block.targets.tolist():
                    key = (target, CLASSES[kind])
                    found[key] = found.get(key, 0) + int(weight[kind])
    return tuple(Reach(target, name, count) for (target, name), count in sorted(found.items()))


def _spans(analysis: Analysis, axis: BirthAxis, block: Block) -> list[KeySpan]:
    """The differing keys of a block, one span for each message and class."""
    differs = block.kind != AGREE
    atoms, kinds = block.keys[differs], block.kind[differs]
    size = axis.size[atoms]
    return spans_at(analysis, expand(axis.cut[atoms], size), np.repeat(kinds, size))


def spans_at(analysis: Analysis, ranks: Longs, kinds: Longs) -> list[KeySpan]:
    """Some text as spans, one for each stretch of one message and one class.

    Args:
        analysis: of the rollout.
        ranks: int64 (K,): places of the text's tokens in the order of birth.
        kinds: int64 (K,): index into `CLASSES` of each.
    """
    if not len(ranks):
        return []
    tree = analysis.tree
    nodes = tree.birth[ranks]
    call = tree.first_call[tree.segment_of(nodes)]
    message = _message_of(analysis, nodes, call)
    labels = np.stack([kinds, call, message], axis=1)
    fresh = (np.diff(ranks, prepend=-2) != 1) | (np.diff(labels, axis=0, prepend=-2) != 0).any(1)
    first = np.flatnonzero(fresh)
    found: list[KeySpan] = []
    for start, stop in zip(first, np.append(first[1:], len(nodes)), strict=True):
        born, place = int(call[start]), int(message[start])
        spans = analysis.encoding.calls[born].spans
        at = int(tree.position_of(nodes[start]))
        found.append(
            KeySpan(
                name=CLASSES[labels[start, 0]],
                tokens=int(stop - start),
                call=born,
                sampled=at >= int(tree.prompt_length[born]),
                kind=spans[place].kind or spans[place].role if place >= 0 else "",
                first_node=int(nodes[start]),
                text=analysis.decoder.text(tree.ids[nodes[start:stop]]),
            )
        )
    return found


def _message_of(analysis: Analysis, nodes: Longs, call: Longs) -> Longs:
    """int64: index of the message of its call that each node stands in, -1 where none is known."""
    position = analysis.tree.position_of(nodes)
    message = np.full(len(nodes), -1, dtype=np.int64)
    for born in np.unique(call):
        spans = analysis.encoding.calls[born].spans
        if spans:
            here = call == born
            starts = np.array([span.start for span in spans], dtype=np.int64)
            message[here] = np.searchsorted(starts, position[here], side="right") - 1
    return message
