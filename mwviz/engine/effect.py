"""What keys do to a target: its log-probability with them and without, by experiment.

Attention mass says how much a target looks at something; this says what changes if it is gone. Keys
are hidden from every query behind them, as if the view did not show them, at unchanged positions.
Letters: T tokens of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from mwviz.engine import attention, check, kernels, vocabulary
from mwviz.engine.divergence import Divergence, diverge
from mwviz.engine.hiding import passes
from mwviz.engine.layout import Layout, layout
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.errors import ViewError
from mwviz.judging import CLASSES
from mwviz.junctions import Junction
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.undo import Undone, undo
from mwviz.views import View, build_view
from mwviz.windows import class_window


class Hidden(NamedTuple):
    """Keys to hide together, with a name for people."""

    name: str
    keys: Longs
    """int64: indices into the row's tokens before the target."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one set of keys does to one target."""

    name: str
    tokens: int
    change: float
    """Log-probability with the keys minus that without them, nats: above 0 they make it likelier.
    """


def class_keys(tree: EvictionTree, view: View, target: int) -> tuple[Hidden, ...]:
    """The keys of a target's row by pair class, those that have any.

    Raises:
        ViewError: the view does not cover the target.
    """
    kinds = _kinds(tree, view, target)
    return tuple(
        Hidden(name, np.flatnonzero(kinds == kind))
        for kind, name in enumerate(CLASSES)
        if (kinds == kind).any()
    )


def span_keys(tree: EvictionTree, view: View, target: int) -> tuple[Hidden, ...]:
    """The same, each class cut into stretches of one segment: `future 12-40` are row indices.

    Tokens of a trainer's row that are in no context have no class and are never hidden.

    Raises:
        ViewError: the view does not cover the target.
    """
    place = _place(view, target)
    nodes = view.rows[place.row].nodes[: place.query + 1]
    kinds, segment = _kinds(tree, view, target), tree.segment_of(nodes)
    ends = np.flatnonzero((np.diff(kinds) != 0) | (np.diff(segment) != 0)) + 1
    found = []
    for keys in np.split(np.arange(len(kinds)), ends):
        if kinds[keys[0]] < len(CLASSES):
            name = f"{CLASSES[kinds[keys[0]]]} {keys[0]}-{keys[-1]}"
            found.append(Hidden(name, keys))
    return tuple(found)


def effects(
    tree: EvictionTree, view: View, model: Model, *, target: int, hidden: Sequence[Hidden]
) -> tuple[Effect, ...]:
    """What each set of keys does to a target, the largest |change| first.

    Args:
        tree: The tree the view indexes.
        view: Whose row to run; the first one that trains the target.
        model: Runs all sets in as few passes as fit.
        target: A target that the view covers.
        hidden: From `class_keys` or `span_keys`. The token that predicts the target always stays.

    Raises:
        ModelError: The model cannot be given a mask.
        ViewError: The view does not cover the target.
    """
    place = _place(view, target)
    row = view.rows[place.row]
    part = layout(tree, row, limit=model.max_positions)
    if place.query >= len(part.ids):
        raise ViewError(f"target {target}: its context exceeds the tokens that {model.name} holds")
    kernel = check.proved(model, [row], masked=True).kernel
    how = kernel, kernels.fuses(model, kernel, row.size)
    size = place.query + 1
    until = np.full(size, size) if part.visible_until is None else part.visible_until[:size]
    token = int(tree.ids[tree.token[target]])
    keys = [chosen.keys for chosen in hidden]
    found: list[Effect] = []
    for chosen, given, last in passes(part, until, keys):
        said = _logprobs(model, given, how, token=token, last=last)
        found += [
            Effect(hidden[index].name, len(keys[index]), said[0] - value)
            for index, value in zip(chosen, said[1:], strict=True)
        ]
    return tuple(sorted(found, key=lambda effect: -abs(effect.change)))


@dataclass(frozen=True, slots=True, eq=False)
class Restored:
    """Later tokens with an evicted span put back, beside what was recorded. M targets."""

    undone: Undone
    change: npt.NDArray[np.float32]
    """float32 (M,): log-probability with the span minus that without, nats; NaN elsewhere."""
    lost: Divergence
    """Information lost at the junction: KL(uncompressed || compressed) and the other distances. Not
    the objective of SDCC, which compares the tokens before the junction."""
    floor: float
    """|change| up to this is noise, nats: the larger threshold of both as they were run."""


def put_back(tree: EvictionTree, junction: Junction, model: Model) -> Restored:
    """Scores the calls behind a junction again with what it evicted put back.

    Raises:
        ModelError: The model cannot score them.
        ViewError: Nothing recorded was evicted there.
    """
    undone = undo(tree, junction)
    with_span, without = (
        finish(score(grown, _rows_of(grown, undone.calls), model)) for grown in (undone.tree, tree)
    )
    return Restored(
        undone=undone,
        change=with_span.logprob - without.logprob,
        lost=finish(diverge(with_span, without, model)),
        floor=max(scores.floor.threshold for scores in (with_span, without)),
    )


def _rows_of(tree: EvictionTree, calls: tuple[int, ...]) -> View:
    view = build_view(tree, "call_by_call")
    return View(view.method, tuple(view.rows[call] for call in calls), view.targets, ())


class _Place(NamedTuple):
    row: int
    query: int
    """Index in the row of the token that predicts the target."""


def _place(view: View, target: int) -> _Place:
    for index, row in enumerate(view.rows):
        edge = np.flatnonzero((row.edges.target == target) & (row.edges.weight > 0))
        if len(edge):
            return _Place(index, int(row.edges.query[edge[0]]))
    raise ViewError(f"{view.method} does not cover target {target}")


def _kinds(tree: EvictionTree, view: View, target: int) -> Longs:
    """int64 (T,): pair class of every token up to the query; `len(CLASSES)` if it has none."""
    place = _place(view, target)
    row = view.rows[place.row]
    one = View(view.method, (row,), view.targets, ())
    window = class_window(tree, one, range(target, target + 1), range(len(tree.birth)))
    rank = np.empty(tree.size, dtype=np.int64)
    rank[tree.birth] = np.arange(len(tree.birth))
    size = place.query + 1
    nodes = row.nodes[:size]
    kinds = window.cells[0].astype(np.int64)[rank[tree.origin[nodes]]]
    kinds[kinds >= len(CLASSES)] = CLASSES.index("agree")
    seen = (row.visible_until[:size] > place.query) & (nodes >= 0)
    return np.where(seen, kinds, len(CLASSES))


@torch.inference_mode()
def _logprobs(
    model: Model, part: Layout, how: tuple[str, bool], *, token: int, last: Longs
) -> list[float]:
    """Log-probability of a token behind each of some queries, nats; `how` as it was proved."""
    kernel, compiled = how
    hidden = attention.hidden_states(model, part, kernel, compiled=compiled)
    rows = hidden[torch.from_numpy(last).to(model.device)]
    said: list[float] = vocabulary.head(model).log_softmax(rows)[:, token].tolist()
    return said
