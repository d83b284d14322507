"""Why one sampled token drifts: what it sees and misses, how much it looks there, what that does.

Attention mass is where the token looks; the effect is how its log-probability changes if the text
is hidden. They need not agree, and effects of several texts need not add up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mwviz.analysis import Analysis
from mwviz.attended import Attended, Seen, places, reading, seen
from mwviz.causes import Causes, causes, one_row, truth
from mwviz.engine.steps import Step, finish, remaining
from mwviz.errors import ModelError, ViewError
from mwviz.judging import CLASSES
from mwviz.leaks import MISSING, KeySpan, sources
from mwviz.trie import Longs
from mwviz.verdict import explain
from mwviz.wording import counted

if TYPE_CHECKING:
    from mwviz.engine.effect import Hidden
    from mwviz.engine.model import Model

MOST_NAMED = 20
"""Calls that a message lists."""
STAGES = 3
"""What each source does, what each class does, where the token looks."""


class ClassEffect(NamedTuple):
    """One pair class of one token."""

    name: str
    keys: int
    mass: float | None
    """Share of the token's attention, 0 to 1, mean over layers and heads: under the view, of
    missing text in the true context; None where the model does not show its weights."""
    change: float | None
    """Log p under the view minus log p without this text, nats; of missing text log p without it
    minus log p in the true context. None if nothing but the text that predicts it is left."""


@dataclass(frozen=True, slots=True)
class Why:
    """One token under one view."""

    call: int
    offset: int
    text: str
    """Of the token, as in the trace."""
    sentences: tuple[str, ...]
    """What it sees and misses, in our words."""
    sources: tuple[KeySpan, ...]
    """The text behind its pair counts, the longest first."""
    causes: Causes | None
    """What the model says of them; None without a model."""
    classes: tuple[ClassEffect, ...]
    """Empty without a model."""
    floor: float | None
    """|change| below this is noise, nats."""
    attention: Attended | None
    """Where it looks, by layer; None without a model or its weights."""
    looks: tuple[Seen, ...]
    """The same by text, the largest share first."""
    note: str
    """Why there is no attention mass; "" if there is."""


def find_target(analysis: Analysis, call: int, offset: int) -> int:
    """The index of a sampled token.

    Raises:
        ViewError: the call sampled no such token.
    """
    tree = analysis.tree
    found = np.flatnonzero((tree.call == call) & (tree.offset == offset))
    if not len(found):
        count = int((tree.call == call).sum())
        calls = len(tree.tip)
        told = f"the rollout has {counted(calls, 'call')}"
        if 0 <= call < calls:
            told = f"call {call} sampled {counted(count, 'token')}"
        raise ViewError(f"no token {offset} of call {call}: {told}, counted from 0")
    return int(found[0])


def why(analysis: Analysis, view: str, target: int, model: Model | None) -> Why:
    """What a target sees and misses under a view, and what that does; see `explaining`."""
    return finish(explaining(analysis, view, target, model))


def explaining(
    analysis: Analysis, view: str, target: int, model: Model | None
) -> Iterator[Step[Why]]:
    """Steps of telling what a target sees and misses under a view; the last one has it all.

    Args:
        analysis: shares the model's tokenizer.
        view: a method or a batch.
        target: a covered one.
        model: None leaves out what needs one.

    Raises:
        ModelError: the model cannot run the row under a mask.
        ViewError: the view does not cover the target.
    """
    tree = analysis.tree
    trained = analysis.view(view).multiplicity > 0
    if not trained[target]:
        place = f"token {tree.offset[target]} of call {tree.call[target]}"
        calls = np.unique(tree.call[trained]).tolist()
        more = f" and {len(calls) - MOST_NAMED:,} more" if len(calls) > MOST_NAMED else ""
        named = ", ".join(map(str, calls[:MOST_NAMED])) or "none"
        raise ViewError(f"{view} does not train {place}; calls that it trains: {named}{more}")
    told: Causes | None = None
    classes: tuple[ClassEffect, ...] = ()
    attention: Attended | None = None
    floor, note = None, ""
    if model is not None:
        began = time.perf_counter()
        yield Step(0, STAGES, 0.0)
        told = causes(analysis, view, target, model)
        yield Step(1, STAGES, remaining(time.perf_counter() - began, 1, STAGES))
        change = _changes(analysis, view, target, model)
        yield Step(2, STAGES, remaining(time.perf_counter() - began, 2, STAGES))
        try:
            attention = finish(reading(analysis, view, target, model))
        except ModelError as error:
            note = str(error)
        classes = _classes(analysis, view, target, change, attention)
        floor = _floor(analysis, view, target, model)
    found = Why(
        call=int(tree.call[target]),
        offset=int(tree.offset[target]),
        text=analysis.decoder.text(tree.ids[tree.token[target : target + 1]]),
        sentences=explain(analysis, view, target),
        sources=sources(analysis, view, target),
        causes=told,
        classes=classes,
        floor=floor,
        attention=attention,
        looks=seen(places(analysis, view, target), attention) if attention else (),
        note=note,
    )
    yield Step(STAGES, STAGES, 0.0, found)


def _floor(analysis: Analysis, view: str, target: int, model: Model) -> float:
    """The larger one of both rows as they were run, nats."""
    from mwviz.engine.check import proved

    sides = (one_row(analysis.view(name), target) for name in (view, truth(analysis)))
    return max(proved(model, side.rows, masked=True).floor.threshold for side in sides)


def _classes(
    analysis: Analysis,
    view: str,
    target: int,
    change: Mapping[str, float],
    attention: Attended | None,
) -> tuple[ClassEffect, ...]:
    """Every class the target has keys of."""
    counts = {name: int(analysis.pairs(view).of(name)[target]) for name in CLASSES}
    return tuple(
        ClassEffect(name, count, attention.share(name) if attention else None, change.get(name))
        for name, count in counts.items()
        if count
    )


def _changes(analysis: Analysis, view: str, target: int, model: Model) -> dict[str, float]:
    """What each class does to the target, nats."""
    from mwviz.engine.effect import Hidden, class_keys, effects

    tree = analysis.tree
    laid = one_row(analysis.view(view), target)
    hidden = _but(class_keys(tree, laid, target), laid.rows[0].size - 1)
    found = effects(tree, laid, model, target=target, hidden=hidden)
    change = {effect.name: effect.change for effect in found}
    true = one_row(analysis.view(truth(analysis)), target)
    missing = _missing(analysis, view, target)
    lacking = _but([Hidden(*one) for one in missing.items()], true.rows[0].size - 1)
    if lacking:
        found = effects(tree, true, model, target=target, hidden=lacking)
        change |= {effect.name: -effect.change for effect in found}
    return change


def _but(shown: Sequence[Hidden], last: int) -> list[Hidden]:
    """The same without the token that predicts the target, which always stays."""
    kept = [one._replace(keys=one.keys[one.keys != last]) for one in shown]
    return [one for one in kept if len(one.keys)]


def _missing(analysis: Analysis, view: str, target: int) -> dict[str, Longs]:
    """int64 by class: positions in the true context of the text that the view lacks."""
    tree = analysis.tree
    born = {int(node): place for place, node in enumerate(tree.birth)}
    path = tree.path(int(tree.query[target]))
    rank = np.array([born[int(node)] for node in tree.origin[path]], dtype=np.int64)
    found: dict[str, Longs] = {}
    for span in sources(analysis, view, target):
        if span.name in MISSING:
            first = born[span.first_node]
            keys = np.flatnonzero((rank >= first) & (rank < first + span.tokens))
            found[span.name] = np.concatenate((found.get(span.name, keys[:0]), keys))
    return {name: np.sort(keys) for name, keys in found.items()}
