"""Which exact layout takes less time on a tree: all of it packed, or one row a branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mwviz.engine import check, cost, memory
from mwviz.engine.cost import Prediction
from mwviz.engine.feed import MAX_DENSE
from mwviz.engine.kernels import BLOCKED, choose_kernel
from mwviz.engine.model import Model
from mwviz.errors import ModelError
from mwviz.tree import EvictionTree
from mwviz.views import Row, build_view


class Choice(NamedTuple):
    """The exact method to run, and the reason in words."""

    method: str
    why: str
    prediction: Prediction
    """What it will cost; `Prediction.against` compares that with what it took."""


def choose_exact(tree: EvictionTree, model: Model, *, train: bool = False) -> Choice:
    """`packed_mask` or `logit_tree`, whichever is possible and predicted to take less time.

    Where branches that could run in batches are predicted faster, the model first shows that lines
    of a batch do not touch: five passes over the built-in tree, once for each kernel.

    Args:
        tree: What to run.
        model: Runs it; its device is calibrated once, in under a second.
        train: Whether the backward pass is run too.

    Raises:
        ModelError: Dropout is on, so that nothing can be shown.
    """
    rows = build_view(tree, "logit_tree").rows
    branches = _branches(model, rows, train=train)
    refusal = _refusal(tree, model)
    if refusal:
        return Choice("logit_tree", refusal, branches)
    kernel = choose_kernel(model, packed=True)
    packed = cost.predict(model, build_view(tree, "packed_mask").rows, kernel=kernel, train=train)
    if memory.fits(model, branches.bytes) and not memory.fits(model, packed.bytes):
        return Choice("logit_tree", "one packed row does not fit in memory, cut or not", branches)
    if branches.seconds < packed.seconds:
        # Only now is it worth knowing whether they can run in the batches that were counted on.
        check.grouped(model, rows, kernel=choose_kernel(model, packed=False), train=train)
        branches = _branches(model, rows, train=train)
    ratio = branches.seconds / packed.seconds if packed.seconds else 1.0
    if ratio > 1:
        return Choice("packed_mask", f"one packed row is predicted {ratio:.1f}x faster", packed)
    return Choice(
        "logit_tree",
        f"separate branches are predicted {1 / max(ratio, 1e-9):.1f}x faster",
        branches,
    )


def _branches(model: Model, rows: Sequence[Row], *, train: bool) -> Prediction:
    """What separate branches cost, one by one where lines of a batch are known to touch."""
    return cost.predict(model, rows, kernel=choose_kernel(model, packed=False), train=train)


def _refusal(tree: EvictionTree, model: Model) -> str:
    """Why the tree cannot be packed; "" if it can."""
    try:
        kernel = choose_kernel(model, packed=True)
    except ModelError as error:
        return str(error)
    if kernel not in BLOCKED and tree.size > MAX_DENSE:
        return f"{tree.size:,} tree tokens exceed the {MAX_DENSE:,} of a dense mask"
    return ""
