"""Where one sampled token looks: its attention by pair class, by text and by layer.

Runs a model on two rows only, each cut behind the token's query: the view's and the true context's.
Attention is not causation: `mwviz.causes` measures what a text does.
Letters: L layers, C classes, S places.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.analysis import Analysis
from mwviz.causes import birth_ranks, one_row, truth
from mwviz.engine.steps import Step, remaining
from mwviz.judging import AGREE, CLASSES
from mwviz.leaks import LEAKING, MISSING, KeySpan, spans_at
from mwviz.trie import Longs
from mwviz.views.view import View
from mwviz.windows import class_window
from mwviz.wording import counted

if TYPE_CHECKING:
    from mwviz.engine.model import Model

Floats = npt.NDArray[np.float32]
Shares = tuple[tuple[float, ...], ...]

KINDS = range(len(CLASSES))
LONGEST = 11_585
"""Tokens of a row whose weights of a single head could be held; see `engine.attention_mass`."""
PASSES = 3
"""The view's row, the true context, and that once more for the floor."""
BEHIND = 64
"""Tokens put behind the true context for the floor: enough that sums are taken in other blocks."""


@dataclass(frozen=True, slots=True)
class Attended:
    """Shares of one target's attention, 0 to 1, means over heads."""

    here: Shares
    """L rows of C: under the view, by layer and class."""
    true: Shares
    """L rows of C: in the true context; `agree` is text that the view shows too."""
    places_here: tuple[float, ...]
    """S, as `places` lists them: under the view, mean over layers."""
    places_true: tuple[float, ...]
    """S: in the true context, mean over layers."""
    floor: float
    """Largest share of a layer that rounding alone moves: the same true context in a longer row."""
    model: str
    """Name and revision."""
    heads: int
    """Of each layer."""

    def share(self, name: str) -> float:
        """Share on the text of a class, mean over layers: of missing text in the true context."""
        side = self.true if name in MISSING else self.here
        return float(np.mean([layer[CLASSES.index(name)] for layer in side]))

    @property
    def leaked(self) -> float:
        """Share under the view on text that the target never saw; lower is better."""
        return sum(self.share(name) for name in LEAKING)

    @property
    def missed(self) -> float:
        """Share in the true context on text that the view lacks; lower is better."""
        return sum(self.share(name) for name in MISSING)

    @property
    def coverage(self) -> float:
        """Share under the view that stands on text of a class.

        The rest is on attention sinks, and on a trainer's tokens that are in no context.
        """
        return float(np.sum(self.here, axis=1).mean())

    @property
    def sentence(self) -> str:
        """What the shares add up to, in words."""
        return (
            f"{self.leaked:.1%} of its attention under the view falls on text that it never saw, "
            f"{self.missed:.1%} of that in its true context on text that the view lacks."
        )

    @property
    def depths(self) -> str:
        """Where in the model it looks most at wrong text, in words."""
        sides = ((self.here, LEAKING, "never saw"), (self.true, MISSING, "misses"))
        told = []
        for side, names, words in sides:
            wrong = [sum(layer[CLASSES.index(name)] for name in names) for layer in side]
            if max(wrong) > self.floor:
                layer = int(np.argmax(wrong))
                told.append(f"most on text that it {words}: {wrong[layer]:.1%} in layer {layer}")
        return "; ".join(told) or "no layer looks at text that is in the wrong place"

    @property
    def terms(self) -> str:
        """What the shares are means over, their floor and what they cover, in words."""
        return (
            f"Means over {counted(len(self.here), 'layer')} of {counted(self.heads, 'head')}; a "
            f"layer's share up to {self.floor:.1g} is rounding; {self.coverage:.1%} of the "
            "attention stands on text of a class."
        )

    def to_json(self) -> dict[str, Any]:
        """As the worker tells it."""
        return {
            "here": [list(layer) for layer in self.here],
            "true": [list(layer) for layer in self.true],
            "places_here": list(self.places_here),
            "places_true": list(self.places_true),
            "floor": self.floor,
            "model": self.model,
            "heads": self.heads,
        }

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Attended:
        """What `to_json` wrote."""
        shares = {name: tuple(map(tuple, told[name])) for name in ("here", "true")}
        sides = {name: tuple(told[name]) for name in ("places_here", "places_true")}
        return cls(**{**told, **shares, **sides})


class Seen(NamedTuple):
    """One text, and how much the target looks at it."""

    span: KeySpan
    here: float | None
    """Share under the view, 0 to 1; None where the view does not show it."""
    true: float | None
    """Share in the true context; None where that does not have it."""


def seen(spans: Sequence[KeySpan], told: Attended) -> tuple[Seen, ...]:
    """Each text with its shares, the largest first.

    Args:
        spans: what `places` gives.
        told: of the same target, view and tokens.
    """
    found = [
        Seen(span, None if span.name in MISSING else here, None if span.leaks else true)
        for span, here, true in zip(spans, told.places_here, told.places_true, strict=True)
    ]
    return tuple(sorted(found, key=lambda one: -max(one.here or 0.0, one.true or 0.0)))


def places(analysis: Analysis, view: str, target: int) -> tuple[KeySpan, ...]:
    """All text that a target sees under a view or saw in truth, by class, in order of birth.

    Args:
        analysis: of the rollout.
        view: a method's name.
        target: one that the view covers.

    Raises:
        ViewError: the view does not cover the target.
    """
    ranks, kinds = _keys(analysis, one_row(analysis.view(view), target), target)
    return tuple(spans_at(analysis, ranks, kinds))


def reading(analysis: Analysis, view: str, target: int, model: Model) -> Iterator[Step[Attended]]:
    """Steps of reading where a target looks, one a pass; the last one has it all.

    Args:
        analysis: shares the model's tokenizer: see `Analysis.for_model`.
        view: a method's name.
        target: one that the view covers.
        model: runs its own eager attention, the one that shows its weights.

    Raises:
        ModelError: the model does not show its weights, or a row is too long for them.
        ViewError: the view does not cover the target.
    """
    from mwviz.engine.attention_mass import key_weights

    laid, true = _sides(analysis, view, target)
    ranks, kinds = _keys(analysis, laid, target)
    begun = time.perf_counter()
    found: list[Floats] = []
    for side, behind in ((laid, 0), (true, 0), (true, BEHIND)):
        yield Step(len(found), PASSES, remaining(time.perf_counter() - begun, len(found), PASSES))
        found.append(key_weights(analysis.tree, side, model, target=target, behind=behind))
    on_ranks = [
        _by_rank(weights, birth_ranks(analysis, side.rows[0].nodes), ranks)
        for weights, side in zip(found, (laid, true), strict=False)
    ]
    lengths = [span.tokens for span in spans_at(analysis, ranks, kinds)]
    starts = np.cumsum([0, *lengths[:-1]])
    by_class = [np.stack([w[:, kinds == kind].sum(1) for kind in KINDS], 1) for w in on_ranks]
    by_place = [np.add.reduceat(weights.mean(axis=0), starts) for weights in on_ranks]
    here, true_shares = (tuple(tuple(map(float, layer)) for layer in side) for side in by_class)
    places_here, places_true = (tuple(map(float, side)) for side in by_place)
    told = Attended(
        here=here,
        true=true_shares,
        places_here=places_here,
        places_true=places_true,
        # Half of what moves is the most that any share can move by.
        floor=float(np.abs(found[2] - found[1]).sum(axis=1).max() / 2),
        model=model.label,
        heads=int(model.module.config.get_text_config().num_attention_heads),
    )
    yield Step(PASSES, PASSES, 0.0, told)


def _sides(analysis: Analysis, view: str, target: int) -> tuple[View, View]:
    """The view's row and that of the true context, both cut behind the target's query."""
    sides = (view, truth(analysis))
    first, second = (one_row(analysis.view(name), target) for name in sides)
    return first, second


def _keys(analysis: Analysis, laid: View, target: int) -> tuple[Longs, Longs]:
    """Places in the order of birth of all text that either row shows the target, and its class.

    Returns:
        int64 (K,) ascending, and int64 (K,) indices into `CLASSES`.
    """
    tree = analysis.tree
    row = laid.rows[0]
    shown = birth_ranks(analysis, row.nodes)[row.visible_until >= row.size]
    window = class_window(tree, laid, range(target, target + 1), range(len(tree.birth)))
    kinds = window.cells[0].astype(np.int64)
    missing = np.flatnonzero(np.isin(kinds, [CLASSES.index(name) for name in MISSING]))
    kinds[kinds >= len(CLASSES)] = AGREE
    ranks = np.union1d(shown[shown >= 0], missing)
    return ranks, kinds[ranks]


def _by_rank(weights: Floats, key_ranks: Longs, ranks: Longs) -> Floats:
    """float32 (L, K): what falls on each place, all its copies together.

    Args:
        weights: float32 (L, T).
        key_ranks: int64 (T,): place of each key in the order of birth, -1 if it has none.
        ranks: int64 (K,): the places asked for, ascending.
    """
    known = np.isin(key_ranks, ranks)
    found = np.zeros((len(ranks), len(weights)), dtype=np.float32)
    np.add.at(found, np.searchsorted(ranks, key_ranks[known]), weights[:, known].T)
    return found.T
