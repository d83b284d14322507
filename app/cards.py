"""What is selected, as plain values: a sampled token under a view, or a whole segment.

Small, because a new selection sends it: the browser knows the sentences that go with the numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from mwviz.analysis import Analysis
from mwviz.causes import Alternative, Causes
from mwviz.compare import Comparison
from mwviz.display import visible
from mwviz.judging import COUNTED
from mwviz.leaks import KeySpan, sources
from mwviz.wording import counted
from mwviz_app.state import Selection
from mwviz_app.whatif import WhatIf

AROUND = 14
"""Tokens of context that are quoted before the selected one."""
MOST_SPANS = 4
"""Sources told at once; the popover has all."""
MOST_MEASURED = 3
"""The same where the most likely tokens are told too."""
MOST_WORDS = 56
"""Bytes of a source's text in the card: its own words are what it may send most of."""
MOST_BEFORE = 110
"""Bytes of the text before the token."""
MOST_TOKEN = 60
"""Bytes of the token itself."""
MOST_PIECE = 520
"""Bytes of a segment in the card."""
NUMBERS = {
    "true": "logprob_true",
    "view": "logprob_view",
    "recorded": "logprob_recorded",
    "rank_true": "rank_true",
    "rank_view": "rank_view",
    "entropy_true": "entropy_true",
    "entropy_view": "entropy_view",
}
"""Columns of the comparison that the card tells, by its names for them."""

Card = dict[str, Any]
"""What the component `mwviz.inspector` draws."""
MOST_LIKELY = 20
"""Bytes of each of the most likely tokens."""
MOST_TOKENS = 2_000
"""Tokens of a segment that are told."""


class Piece(NamedTuple):
    """A selected segment in words."""

    sentence: str
    text: str


def target_of(analysis: Analysis, chosen: Selection | None) -> int | None:
    """The selected sampled token; None if none is."""
    if chosen is None or chosen.target is None or chosen.target >= len(analysis.tree.token):
        return None
    return chosen.target


def of_target(analysis: Analysis, target: int) -> Selection:
    """The selection that points at a sampled token."""
    tree = analysis.tree
    segment = int(tree.segment_of(tree.token[target]))
    return Selection(int(tree.call[target]), segment, target)


def card(
    analysis: Analysis,
    view: str,
    chosen: Selection | None,
    comparison: Comparison | None,
    causes: Causes | None,
    undone: WhatIf | None = None,
) -> Card:
    """What the browser draws of a selection."""
    if chosen is None:
        return {"said": "Click a rectangle or a token to see what it was sampled from."}
    target = target_of(analysis, chosen)
    if target is None:
        piece = segment(analysis, chosen)
        return {"said": piece.sentence, "text": _start(piece.text, MOST_PIECE, keep="\n\t")}
    told = _token(analysis, view, target, comparison, causes)
    if undone is not None:
        told["whatif"] = [undone.call, undone.tokens, round(undone.change, 4), undone.floor]
    return told


def _token(
    analysis: Analysis, view: str, target: int, comparison: Comparison | None, causes: Causes | None
) -> Card:
    tree = analysis.tree
    node, query = int(tree.token[target]), int(tree.query[target])
    position = int(tree.position_of(node))
    path = tree.path(node)[-AROUND - 1 :]
    trained = bool(analysis.view(view).multiplicity[target])
    spans = sources(analysis, view, target) if trained else ()
    shown = ranked(spans, causes)
    most = MOST_SPANS if causes is None else MOST_MEASURED
    told: Card = {
        "said": f"Call {int(tree.call[target]):,}, token {int(tree.offset[target]):,}, sampled "
        f"after {counted(position, 'token')}:",
        "before": _end(analysis.decoder.text(tree.ids[path[:-1]]), MOST_BEFORE),
        "token": _start(analysis.decoder.text(tree.ids[path[-1:]]), MOST_TOKEN),
        "view": view,
        "n": _numbers(comparison, target) if comparison else _recorded(analysis, target),
        "times": int(analysis.view(view).multiplicity[target]),
        "counts": _counts(analysis, view, target) if trained else {},
        "spans": [_span(span, change) for span, change in shown[:most]],
        "more": max(len(shown) - most, 0),
        "ids": [node, query, int(tree.ids[node]), position],
    }
    if causes is not None:
        told["likely"] = [_likely(causes.likely_true), _likely(causes.likely_view)]
    return told


def _numbers(comparison: Comparison, target: int) -> dict[str, float | int]:
    row = comparison.table.iloc[target]
    known = {name: row[column] for name, column in NUMBERS.items()}
    told: dict[str, float | int] = {"floor": float(f"{comparison.threshold:.3g}")}
    for name, value in known.items():
        if name.startswith("rank"):
            if value >= 0:
                told[name] = int(value)
        elif not pd.isna(value):
            told[name] = round(float(value), 5)
    return told


def _recorded(analysis: Analysis, target: int) -> dict[str, float | int]:
    value = float(analysis.tree.logprob[target])
    return {} if pd.isna(value) else {"recorded": round(value, 5)}


def ranked(spans: tuple[KeySpan, ...], causes: Causes | None) -> list[tuple[KeySpan, float | None]]:
    """The sources with their effect in nats where it was measured: those first, by its size."""
    measured = {cause.source: cause.change for cause in causes.causes} if causes else {}
    order = sorted(range(len(spans)), key=lambda i: -abs(measured.get(i, 0.0)))
    return [(spans[i], measured.get(i)) for i in order]


def _counts(analysis: Analysis, view: str, target: int) -> dict[str, int]:
    """Keys of the token by class and flag, those that it has."""
    pairs = analysis.pairs(view)
    counts = {name: int(pairs.of(name)[target]) for name in COUNTED}
    return {name: count for name, count in counts.items() if count}


def _span(span: KeySpan, change: float | None) -> list[str | int | float]:
    """Class, tokens, place, words, and the effect in nats where it was measured."""
    words = " ".join(span.text[: 4 * MOST_WORDS].split())
    place, text = (_start(one, MOST_WORDS, keep="") for one in (span.place, words))
    told: list[str | int | float] = [span.name, span.tokens, place, text]
    return told if change is None else [*told, round(change, 4)]


def _likely(side: tuple[Alternative, ...]) -> list[tuple[str, float]]:
    return [(_start(one.text, MOST_LIKELY), round(one.logprob, 3)) for one in side]


def _start(text: str, size: int, *, keep: str = "\n") -> str:
    """The visible text from its start, in at most `size` bytes."""
    shown = visible(text[:size], keep=keep).encode()
    whole = len(text) <= size and len(shown) <= size
    return shown[:size].decode(errors="ignore") + ("" if whole else "…")


def _end(text: str, size: int) -> str:
    """The visible text up to its end, in at most `size` bytes."""
    return visible(text[-size:]).encode()[-size:].decode(errors="ignore")


def segment(analysis: Analysis, chosen: Selection) -> Piece:
    """What the selected segment is and says; the last one if the browser named none there is."""
    tree = analysis.tree
    index = min(chosen.segment, len(tree.start) - 1)
    start, length = int(tree.start[index]), int(tree.length[index])
    shown = min(length, MOST_TOKENS)
    sentence = (
        f"Segment {index}: {counted(length, 'token')} at depth {int(tree.depth[index]):,}, "
        f"first sent in call {int(tree.first_call[index]):,}, selected in call {chosen.call:,}"
    )
    if shown < length:
        sentence += f"; its first {counted(shown, 'token')}"
    return Piece(sentence, analysis.decoder.text(tree.ids[start : start + shown]))
