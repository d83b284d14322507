"""Which exact layout costs less on a tree: packed with a dense mask, or one row a branch.

Letters as in the cost model of docs/performance.md: U tree tokens, T branch tokens.
"""

from __future__ import annotations

from typing import NamedTuple

from mwviz.engine.attention import MAX_DENSE, choose_kernel
from mwviz.engine.model import Model
from mwviz.errors import ModelError
from mwviz.tree import EvictionTree


class Choice(NamedTuple):
    """The exact method to run, and the reason in words."""

    method: str
    why: str


def choose_exact(tree: EvictionTree, model: Model) -> Choice:
    """`packed_mask` or `logit_tree`, whichever is possible and costs fewer operations."""
    try:
        choose_kernel(model, packed=True)
    except ModelError as error:
        return Choice("logit_tree", str(error))
    if tree.size > MAX_DENSE:
        return Choice(
            "logit_tree", f"{tree.size:,} tree tokens exceed the {MAX_DENSE:,} of a dense mask"
        )
    ends = (tree.depth + tree.length)[tree.leaves]
    packed = _operations(model, tree.size, tree.size**2)
    branches = _operations(model, int(ends.sum()), int((ends**2).sum()))
    ratio = branches / packed if packed else 1.0
    if ratio > 1:
        return Choice("packed_mask", f"one packed row needs {ratio:.1f}x fewer operations")
    return Choice("logit_tree", f"separate branches need {1 / max(ratio, 1e-9):.1f}x fewer")


def _operations(model: Model, tokens: int, pairs: int) -> float:
    """Floating-point operations of one forward pass over `tokens` with `pairs` of attention."""
    config = model.module.config
    embedding = model.vocabulary * int(config.hidden_size)
    weights = sum(parameter.numel() for parameter in model.module.parameters()) - embedding
    attention = 4 * int(config.hidden_size) * int(config.num_hidden_layers)
    return 2.0 * weights * tokens + float(attention) * pairs
