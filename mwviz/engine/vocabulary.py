"""From final hidden states to log-probabilities, a chunk of targets at a time.

The product with the output head and the softmax are computed in float32 or wider whatever the
model's dtype; logits of all targets are never stored. Letters: E edges, M hidden
states, H width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mwviz.engine.attention import Layout, hidden_states
from mwviz.engine.model import Model, memory_errors
from mwviz.errors import ModelError
from mwviz.tree import EvictionTree

CHUNK_NUMBERS = 1 << 24
"""Logits held at once: 64 MB in float32."""


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The output head: `cap * tanh(scale * (hidden @ weight.T + bias) / cap)`."""

    weight: torch.Tensor
    """(V, H), float32 or wider."""
    bias: torch.Tensor | None
    scale: float
    cap: float | None
    """Soft cap of the logits; None if they have none."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(M, V) of hidden states (M, H)."""
        product = torch.nn.functional.linear(hidden.to(self.weight.dtype), self.weight, self.bias)
        if self.scale != 1.0:
            product = product * self.scale
        return product if self.cap is None else self.cap * torch.tanh(product / self.cap)

    def log_softmax(self, hidden: torch.Tensor) -> torch.Tensor:
        """(M, V): log-probabilities in nats of hidden states (M, H)."""
        return torch.log_softmax(self.logits(hidden), dim=-1)

    def chunks(self, count: int) -> Iterator[slice]:
        """Slices of `count` targets whose logits fit in `CHUNK_NUMBERS`."""
        step = max(1, CHUNK_NUMBERS // self.weight.shape[0])
        return (slice(start, min(start + step, count)) for start in range(0, count, step))


class Reading(NamedTuple):
    """What a model says about E targets; tensors on the CPU."""

    logprob: torch.Tensor
    """(E,): log-probability of each target's token, in nats."""
    entropy: torch.Tensor
    """(E,): of the predicted distribution, in nats."""
    rank: torch.Tensor
    """int64 (E,): how many tokens are more likely."""
    hidden: torch.Tensor
    """(E, H): final hidden state at each query."""


@torch.inference_mode()
def read_row(tree: EvictionTree, part: Layout, model: Model, *, kernel: str, out: Head) -> Reading:
    """The targets of one row, in the order of its edges.

    Args:
        tree: Owns the target tokens.
        part: The row as it is fed.
        model: Runs it.
        kernel: As `choose_kernel` gave it.
        out: The model's output head.
    """
    hidden = hidden_states(model, part, kernel)[torch.from_numpy(part.edges.query).to(model.device)]
    ids = tree.ids[tree.token[part.edges.target]].astype("int64")
    tokens = torch.from_numpy(ids).to(model.device)
    with memory_errors(model, len(part.ids)):
        chunks = [_read_chunk(out, hidden[chunk], tokens[chunk]) for chunk in out.chunks(len(ids))]
    if not chunks:
        nothing = torch.empty(0)
        return Reading(nothing, nothing, nothing.long(), hidden.cpu())
    logprob, entropy, rank = (torch.cat(column).cpu() for column in zip(*chunks, strict=True))
    return Reading(logprob, entropy, rank, hidden.cpu())


def _read_chunk(
    out: Head, hidden: torch.Tensor, tokens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    logprobs = out.log_softmax(hidden)
    chosen = logprobs.gather(1, tokens[:, None])
    rank = (logprobs > chosen).sum(dim=1)
    # 0 * -inf must count as 0: a model may rule tokens out.
    entropy = -(logprobs.exp() * logprobs.clamp_min(-1e30)).sum(dim=1)
    return chosen[:, 0], entropy, rank


def head(model: Model) -> Head:
    """The model's output head, cast to float32 if it is narrower."""
    layer = model.module.get_output_embeddings()  # type: ignore[no-untyped-call]  # transformers'
    if not isinstance(layer, torch.nn.Linear):
        raise ModelError(f"{model.name}: has no linear output head")
    wide = torch.promote_types(layer.weight.dtype, torch.float32)
    config = model.module.config.get_text_config()
    return Head(
        weight=layer.weight.to(wide),
        bias=None if layer.bias is None else layer.bias.to(wide),
        scale=_scale(model),
        cap=getattr(config, "final_logit_softcapping", None),
    )


def _scale(model: Model) -> float:
    """Factor of the logits; model families name it differently and two divide by it."""
    config = model.module.config.get_text_config()
    scaling = getattr(config, "logits_scaling", None)
    if scaling is not None:
        return float(scaling) if config.model_type == "hyperclovax" else 1.0 / float(scaling)
    factor = getattr(config, "logit_scale", None)
    return 1.0 if factor is None else float(factor)
