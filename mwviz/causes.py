"""Why one sampled token drifts: what the model would have said both ways, and what each leak does.

Runs a model on two rows only, each cut behind the token's query: the view's and the true context's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mwviz.analysis import Analysis
from mwviz.errors import ViewError
from mwviz.leaks import KeySpan, sources
from mwviz.trie import Longs
from mwviz.views.view import Edges, Row, View

if TYPE_CHECKING:
    from mwviz.engine.effect import Hidden
    from mwviz.engine.model import Model

MOST_SOURCES = 24
"""Sources whose effect is measured, the longest first."""
ALTERNATIVES = 5
"""Most likely tokens told of each side."""


class Alternative(NamedTuple):
    """A token that the model finds likely."""

    id: int
    text: str
    """As in the trace's vocabulary."""
    logprob: float
    """Nats."""


class Cause(NamedTuple):
    """One source of a token's drift."""

    source: int
    """Index into `leaks.sources`."""
    change: float
    """What the source's place does to the token, nats: log p with the leak minus without it, or log
    p without the missing text minus with it. Above 0 it made the token likelier."""


@dataclass(frozen=True, slots=True)
class Causes:
    """What a model says of one target under a view and in its true context."""

    true: float
    """Log-probability in the true context, nats."""
    view: float
    """Log-probability under the view, nats."""
    likely_true: tuple[Alternative, ...]
    likely_view: tuple[Alternative, ...]
    causes: tuple[Cause, ...]
    """The largest |change| first. They need not add up to the drift: sources interact."""

    def to_json(self) -> dict[str, Any]:
        """As the worker tells it."""
        return {
            "true": self.true,
            "view": self.view,
            "likely_true": [list(one) for one in self.likely_true],
            "likely_view": [list(one) for one in self.likely_view],
            "causes": [list(one) for one in self.causes],
        }

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Causes:
        """What `to_json` wrote."""
        return cls(
            told["true"],
            told["view"],
            tuple(Alternative(*one) for one in told["likely_true"]),
            tuple(Alternative(*one) for one in told["likely_view"]),
            tuple(Cause(*one) for one in told["causes"]),
        )


def causes(analysis: Analysis, view: str, target: int, model: Model) -> Causes:
    """Both predictions of one target, and the effect of every source that leaks or is missing.

    Text that leaks in is hidden from the view's row; text that is missing is hidden from the true
    context. Both change what stands behind it too, as the model would compute it.

    Args:
        analysis: shares the model's tokenizer: see `Analysis.for_model`.
        view: a method's name.
        target: one that the view covers.
        model: runs both rows.

    Raises:
        ModelError: the model cannot run a row under a mask.
        ViewError: the view does not cover the target.
    """
    from mwviz.engine.effect import effects

    tree = analysis.tree
    laid = one_row(analysis.view(view), target)
    true = one_row(analysis.view(truth(analysis)), target)
    found = sources(analysis, view, target)[:MOST_SOURCES]
    likely_view, view_logprob = _likely(analysis, laid, target, model)
    likely_true, true_logprob = _likely(analysis, true, target, model)
    told: list[Cause] = []
    for side, leaks in ((laid, True), (true, False)):
        hidden = _hidden(analysis, side, found, leaks=leaks)
        for effect in effects(tree, side, model, target=target, hidden=hidden) if hidden else ():
            told.append(Cause(int(effect.name), effect.change if leaks else -effect.change))
    return Causes(
        true=true_logprob,
        view=view_logprob,
        likely_true=likely_true,
        likely_view=likely_view,
        causes=tuple(sorted(told, key=lambda cause: -abs(cause.change))),
    )


def truth(analysis: Analysis) -> str:
    """The method whose rows hold every token's true context, one row a call if possible."""
    return "union_mask" if analysis.tree.keeps_entries else "call_by_call"


def one_row(view: View, target: int) -> View:
    """The first row that trains a target, cut behind its query and training nothing else.

    Raises:
        ViewError: the view does not cover the target.
    """
    for row in view.rows:
        edge = np.flatnonzero((row.edges.target == target) & (row.edges.weight > 0))
        if len(edge):
            query = row.edges.query[edge[:1]]
            return View(view.method, (_cut(row, int(query[0]), target),), view.targets, ())
    raise ViewError(f"{view.method} does not cover target {target}")


def birth_ranks(analysis: Analysis, nodes: Longs) -> Longs:
    """int64: place of each node's origin in the order of birth; -1 where it is in no context."""
    tree = analysis.tree
    rank = np.full(tree.size, -1, dtype=np.int64)
    rank[tree.birth] = np.arange(len(tree.birth))
    known = np.where(nodes < 0, 0, nodes)
    return np.where(nodes < 0, -1, rank[tree.origin[known]])


def _cut(row: Row, query: int, target: int) -> Row:
    size = query + 1
    ends = np.cumsum(row.length)
    runs = int(np.searchsorted(ends, size)) + 1
    length = row.length[:runs].copy()
    length[-1] -= ends[runs - 1] - size
    return replace(
        row,
        first_node=row.first_node[:runs],
        length=length,
        first_position=row.first_position[:runs],
        until=np.minimum(row.until[:runs], size),
        edges=Edges(np.array([query]), np.array([target]), np.ones(1, dtype=np.float32)),
        ids=None if row.ids is None else row.ids[:size],
    )


def _likely(
    analysis: Analysis, view: View, target: int, model: Model
) -> tuple[tuple[Alternative, ...], float]:
    """The most likely tokens at the target's query, and the log-probability of its own."""
    from mwviz.engine.divergence import top
    from mwviz.engine.score import score
    from mwviz.engine.steps import finish

    scored = finish(score(analysis.tree, view, model))
    assert scored.hidden is not None
    best = top(model, scored.hidden[target], k=ALTERNATIVES)
    texts = analysis.decoder.decode(best.ids.tolist())
    told = zip(best.ids.tolist(), texts, best.logprobs.tolist(), strict=True)
    return tuple(Alternative(*one) for one in told), float(scored.logprob[target])


def _hidden(
    analysis: Analysis, view: View, found: tuple[KeySpan, ...], *, leaks: bool
) -> list[Hidden]:
    """The keys of a row that each source stands for, named by the source's index."""
    from mwviz.engine.effect import Hidden

    row = view.rows[0]
    rank = birth_ranks(analysis, row.nodes)
    birth = np.empty(analysis.tree.size, dtype=np.int64)
    birth[analysis.tree.birth] = np.arange(len(analysis.tree.birth))
    hidden = []
    for index, span in enumerate(found):
        first = int(birth[span.first_node])
        keys = np.flatnonzero((rank >= first) & (rank < first + span.tokens))
        keys = keys[keys < row.size - 1]  # the token that predicts the target always stays
        if span.leaks == leaks and len(keys):
            hidden.append(Hidden(str(index), keys))
    return hidden
