"""How much of a target's attention falls on each pair class, from the model's own weights.

Mass is not effect: `mwviz.engine.effect` measures that. Rows whose weights would not fit are
refused.
Letters: T tokens of a row, L layers, A heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from mwviz.engine import attention, check
from mwviz.engine.effect import class_keys
from mwviz.engine.model import Model
from mwviz.errors import ModelError
from mwviz.judging import CLASSES
from mwviz.tree import EvictionTree
from mwviz.views import View

MOST_WEIGHTS = 1 << 27
"""Attention weights of one layer that may be held: 512 MB in float32."""
WEIGHT_AXES = 4
"""Batch, head, query and key."""


@dataclass(frozen=True, slots=True, eq=False)
class Mass:
    """Where one target looks."""

    target: int
    by_layer: npt.NDArray[np.float32]
    """float32 (L, len(CLASSES)): share of the attention at the query, mean over heads; a layer's
    shares add up to 1 unless the model has attention sinks."""

    @property
    def by_class(self) -> dict[str, float]:
        """Share of each class, mean over layers and heads, 0 to 1."""
        return dict(zip(CLASSES, self.by_layer.mean(axis=0).tolist(), strict=True))

    @property
    def leaked(self) -> float:
        """Share on text that the target never saw; lower is better."""
        shares = self.by_class
        return shares["future"] + shares["stale"] + shares["foreign"]


def attention_mass(
    tree: EvictionTree, view: View, model: Model, *, targets: Sequence[int]
) -> tuple[Mass, ...]:
    """The masses of some targets, by index; targets that the view does not cover are left out.

    Args:
        tree: The tree the view indexes.
        view: Whose rows to run, once each, up to the last query asked for.
        model: Runs its own eager attention, the one that shows its weights.
        targets: Indices of targets.

    Raises:
        ModelError: A row is too long for its weights, or the layers do not show them.
    """
    wanted = np.unique(np.asarray(targets, dtype=np.int64))
    found: dict[int, Mass] = {}
    for row in view.rows:
        one = View(view.method, (row,), view.targets, ())
        part = attention.layout(tree, row, limit=model.max_positions)
        asked = [
            (int(query), int(target))
            for query, target in zip(part.edges.query, part.edges.target, strict=True)
            if target in wanted and int(target) not in found
        ]
        if not asked:
            continue
        weights = _weights(model, part, [query for query, _ in asked])
        for index, (_, target) in enumerate(asked):
            shares = np.zeros((len(weights), len(CLASSES)), dtype=np.float32)
            for name, keys in class_keys(tree, one, target):
                shares[:, CLASSES.index(name)] = weights[:, index, keys].sum(axis=1)
            found[target] = Mass(target, shares)
    return tuple(found[target] for target in sorted(found))


def _weights(model: Model, part: attention.Layout, queries: list[int]) -> npt.NDArray[np.float32]:
    """float32 (L, queries, T): attention weights at some queries, mean over heads."""
    packed = part.visible_until is not None
    kernel = attention.choose_kernel(model, packed=packed, kernel="eager")
    check.prove(model, packed=packed, kernel=kernel)
    heads = int(model.module.config.get_text_config().num_attention_heads)
    size = len(part.ids)
    if heads * size**2 > MOST_WEIGHTS:
        most = int((MOST_WEIGHTS / heads) ** 0.5)
        raise ModelError(
            f"{model.name}: a row of {size:,} tokens has too many attention weights to hold; "
            f"expected at most {most:,}. Mask keys out instead: their effect needs no weights"
        )
    held: list[npt.NDArray[np.float32]] = []
    with torch.inference_mode(), _watched(model, queries, held):
        attention.hidden_states(model, part, kernel)
    layers = len(model.capability.layers)
    if len(held) != layers:
        raise ModelError(
            f"{model.name}: {len(held)} of its {layers} layers showed attention weights; the mass "
            "needs all. Mask keys out instead: their effect needs no weights"
        )
    return np.stack(held)


@contextmanager
def _watched(
    model: Model, queries: list[int], held: list[npt.NDArray[np.float32]]
) -> Iterator[None]:
    """Collects the weights at some queries from every attention layer, in order."""

    def keep(_module: torch.nn.Module, _given: object, output: object) -> None:
        if isinstance(output, tuple) and len(output) > 1:
            weights = output[1]
            if isinstance(weights, torch.Tensor) and weights.dim() == WEIGHT_AXES:
                held.append(weights[0, :, queries].float().mean(dim=0).cpu().numpy())

    hooks = [
        module.register_forward_hook(keep)
        for module in model.module.modules()
        if type(module).__name__.endswith("Attention")
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
