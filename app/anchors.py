"""Places in a rollout that outlast a growing file and other tokens for the same messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mwviz.analysis import Analysis
from mwviz.rollout import Span
from mwviz_app import cards
from mwviz_app.state import Selection

WORDS = (24, 12, 6, 3)
"""Bytes by which a token is found among other tokens: the longest that occur win."""


class Anchor(NamedTuple):
    """A selection by what does not move when calls are added."""

    call: int
    position: int
    """Place of the segment's first token in the context of the call."""
    target: int | None
    """Targets are numbered by call: later calls leave the numbers of earlier ones."""
    before: int = 0
    """Bytes of the completion before the target."""
    words: bytes = b""
    """What the completion says from the target on."""
    message: str = ""
    """Identity of the message that the segment starts in; "" if the log knows none."""


def anchored(analysis: Analysis, chosen: Selection) -> Anchor | None:
    """The selection, to be found again; None if it points nowhere."""
    tree = analysis.tree
    if chosen.call >= len(tree.tip) or chosen.segment >= len(tree.start):
        return None
    position = int(tree.depth[chosen.segment])
    if chosen.target is None or chosen.target >= len(tree.token):
        message = _message(analysis, chosen.call, position)
        return Anchor(chosen.call, position, chosen.target, message=message)
    texts = _texts(analysis, chosen.call)
    offset = int(tree.offset[chosen.target])
    words = b"".join(texts[offset : offset + WORDS[0]])[: WORDS[0]]
    before = sum(map(len, texts[:offset]))
    return Anchor(chosen.call, position, chosen.target, before, words)


def found(analysis: Analysis, anchor: Anchor) -> Selection | None:
    """The same place once the file has grown; None if it is gone."""
    tree = analysis.tree
    if anchor.target is not None and anchor.target < len(tree.token):
        return cards.of_target(analysis, anchor.target)
    return _at(analysis, anchor.call, anchor.position)


def translated(analysis: Analysis, anchor: Anchor) -> Selection | None:
    """The place that says the same in other tokens; None if it is gone."""
    tree = analysis.tree
    if anchor.call >= len(tree.tip):
        return None
    if anchor.target is None:
        spans = analysis.encoding.calls[anchor.call].spans
        start = next((s.start for s in spans if s.message == anchor.message), anchor.position)
        return _at(analysis, anchor.call, start)
    ends = np.cumsum([len(text) for text in _texts(analysis, anchor.call)])
    if not len(ends):
        return _at(analysis, anchor.call, anchor.position)
    place = _nearest(b"".join(_texts(analysis, anchor.call)), anchor)
    offset = min(int(np.searchsorted(ends, place, side="right")), len(ends) - 1)
    target = np.flatnonzero((tree.call == anchor.call) & (tree.offset == offset))
    return cards.of_target(analysis, int(target[0])) if len(target) else None


def _nearest(text: bytes, anchor: Anchor) -> int:
    """Where the anchor's words stand nearest to their old place; that place if they are gone."""
    for size in WORDS:
        words = anchor.words[:size]
        if not words:
            continue
        after, before = text.find(words, anchor.before), text.rfind(words, 0, anchor.before + size)
        places = [at for at in (after, before) if at >= 0]
        if places:
            return min(places, key=lambda at: abs(at - anchor.before))
    return min(anchor.before, max(len(text) - 1, 0))


def _at(analysis: Analysis, call: int, position: int) -> Selection | None:
    tree = analysis.tree
    if call >= len(tree.tip):
        return None
    context = tree.context(call)
    if not len(context):
        return None
    return Selection(call, int(tree.segment_of(context[min(position, len(context) - 1)])))


def _texts(analysis: Analysis, call: int) -> list[bytes]:
    ids = analysis.encoding.calls[call].completion.tolist()
    return [analysis.decoder.piece(token) for token in ids]


def _message(analysis: Analysis, call: int, position: int) -> str:
    spans: list[Span] = [s for s in analysis.encoding.calls[call].spans if s.end > position]
    return spans[0].message if spans else ""
