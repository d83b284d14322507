"""How much of a target's attention falls on each token of a row, from the model's own weights.

Mass is not effect: `mwviz.engine.effect` measures that. What would not fit is refused before
anything is run. Letters: T tokens of a row up to the target's query, L layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from mwviz.engine import attention, check, kernels
from mwviz.engine.layout import Layout, layout
from mwviz.engine.model import Model
from mwviz.errors import ModelError, ViewError
from mwviz.tree import EvictionTree
from mwviz.views import View

MOST_WEIGHTS = 1 << 27
"""Attention weights of one layer that may be held: 512 MB in float32."""
INSTEAD = "Hide keys instead (What causes this?, mwviz why): their effect needs no weights"
WEIGHT_AXES = 4
"""Batch, head, query and key."""

Weights = npt.NDArray[np.float32]


def key_weights(
    tree: EvictionTree, view: View, model: Model, *, target: int, behind: int = 0
) -> Weights:
    """float32 (L, T): attention of a target's query on each token of its row, mean over heads.

    A layer's weights add up to 1 unless the model has attention sinks.

    Args:
        tree: The tree the view indexes.
        view: Whose first row that trains the target is run, up to the target's query.
        model: Runs its own eager attention, the one that shows its weights.
        target: A target that the view covers.
        behind: Further tokens to put behind the query, which does not see them: weights move by
            rounding alone, which is their floor.

    Raises:
        ModelError: The row is too long for its weights, or the layers do not show them.
        ViewError: The view does not cover the target, or its context exceeds the model's limit.
    """
    for row in view.rows:
        edge = np.flatnonzero((row.edges.target == target) & (row.edges.weight > 0))
        if len(edge):
            break
    else:
        raise ViewError(f"{view.method} does not cover target {target}")
    query = int(row.edges.query[edge[0]])
    part = layout(tree, row, limit=model.max_positions)
    if query >= len(part.ids):
        raise ViewError(
            f"target {target}: its context exceeds the {model.max_positions:,} tokens that "
            f"{model.name} holds"
        )
    part = _until(part, query, behind)
    packed = part.visible_until is not None
    _refuse(model, len(part.ids))
    kernel = kernels.choose_kernel(model, packed=packed, kernel="eager")
    check.prove(model, packed=packed, kernel=kernel)
    held: list[Weights] = []
    with torch.inference_mode(), _watched(model, query, held):
        attention.hidden_states(model, part, kernel)
    layers = len(model.capability.layers)
    if len(held) != layers:
        raise ModelError(_unseen(model, len(held)))
    return np.stack(held)


def _until(part: Layout, query: int, behind: int) -> Layout:
    """The row up to a query, and so many tokens more that it does not see."""
    size = query + 1
    more = np.zeros(behind, dtype=np.int64)
    until = part.visible_until
    if until is not None:
        own = np.arange(size + 1, size + 1 + behind)
        until = np.concatenate((np.minimum(until[:size], size), own))
    return replace(
        part,
        ids=np.concatenate((part.ids[:size], more.astype(np.int32))),
        positions=np.concatenate((part.positions[:size], more + part.positions[query])),
        visible_until=until,
    )


def _refuse(model: Model, size: int) -> None:
    """Says what cannot be held or read, before anything is run."""
    heads = int(model.module.config.get_text_config().num_attention_heads)
    if heads * size**2 > MOST_WEIGHTS:
        most = int((MOST_WEIGHTS / heads) ** 0.5)
        raise ModelError(
            f"{model.name}: a row of {size:,} tokens has too many attention weights to hold; "
            f"expected at most {most:,}. {INSTEAD}"
        )
    shown = len(_attentions(model))
    if shown < len(model.capability.layers):
        raise ModelError(_unseen(model, shown))


def _unseen(model: Model, shown: int) -> str:
    layers = len(model.capability.layers)
    return (
        f"{model.name}: {shown} of its {layers} layers show attention weights; the mass needs "
        f"all. {INSTEAD}"
    )


def _attentions(model: Model) -> list[torch.nn.Module]:
    """Modules that may give attention weights."""
    return [
        module for module in model.module.modules() if type(module).__name__.endswith("Attention")
    ]


@contextmanager
def _watched(model: Model, query: int, held: list[Weights]) -> Iterator[None]:
    """Collects the weights at a query from every attention layer, in order."""

    def keep(_module: torch.nn.Module, _given: object, output: object) -> None:
        if isinstance(output, tuple) and len(output) > 1:
            weights = output[1]
            if isinstance(weights, torch.Tensor) and weights.dim() == WEIGHT_AXES:
                mean = weights[0, :, query, : query + 1].float().mean(dim=0)
                held.append(mean.cpu().numpy())

    hooks = [module.register_forward_hook(keep) for module in _attentions(model)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
