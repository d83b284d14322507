"""From final hidden states to log-probabilities, a chunk of targets at a time.

Logits and softmax are float32 or wider whatever the model's dtype, and on the CPU so are the
factors of the product with the output head; logits of all targets are never stored. Letters: E
edges, M hidden states, H width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from mwviz.engine import fused
from mwviz.engine.attention import hidden_states
from mwviz.engine.kernels import fuses
from mwviz.engine.layout import Layout
from mwviz.engine.model import Model, memory_errors
from mwviz.errors import ModelError
from mwviz.tree import EvictionTree

CHUNK_NUMBERS = 1 << 24
"""Logits held at once: 64 MB in float32."""
CUDA_CHUNKS = 16
"""On CUDA that many times more are held, so that products are large enough."""


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """`left @ right.T`, in float32 or wider also where the factors are narrower."""
    if torch.promote_types(left.dtype, torch.float32) == left.dtype:
        return left @ right.T
    wide = _WideProduct.apply(left, right)  # type: ignore[no-untyped-call]  # torch's
    assert isinstance(wide, torch.Tensor)
    return wide


class _WideProduct(torch.autograd.Function):
    """A product of 16-bit matrices on CUDA that is not rounded to 16 bits."""

    @staticmethod
    def forward(ctx: Any, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(left, right)
        return torch.mm(left, right.T, out_dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        left, right = ctx.saved_tensors
        narrow = outer.to(left.dtype)
        return narrow @ right, narrow.T @ left


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The output head: `cap * tanh(scale * (hidden @ weight.T + bias) / cap)`."""

    weight: torch.Tensor
    """(V, H): float32 or wider, but on CUDA in the model's own dtype."""
    bias: torch.Tensor | None
    scale: float
    cap: float | None
    """Soft cap of the logits; None if they have none."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(M, V) of hidden states (M, H)."""
        raw = product(hidden.to(self.weight), self.weight)
        raw = raw if self.bias is None else raw + self.bias
        raw = raw if self.scale == 1.0 else raw * self.scale
        return raw if self.cap is None else self.cap * torch.tanh(raw / self.cap)

    def log_softmax(self, hidden: torch.Tensor) -> torch.Tensor:
        """(M, V): log-probabilities in nats of hidden states (M, H)."""
        return torch.log_softmax(self.logits(hidden), dim=-1)

    def chunks(self, count: int) -> Iterator[slice]:
        """Slices of `count` targets whose logits fit in `CHUNK_NUMBERS`."""
        held = CHUNK_NUMBERS * (CUDA_CHUNKS if self.weight.device.type == "cuda" else 1)
        step = max(1, held // self.weight.shape[0])
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


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """A row on its way through the device; on the CPU it is there already."""

    columns: Reading
    """On the CPU, not to be read before the device is done."""
    passed: torch.cuda.Event | None
    """When the hidden states are there; None on a device that is done when it returns."""
    ready: torch.cuda.Event | None
    """When all is there."""
    model: Model
    tokens: int

    def hidden(self) -> torch.Tensor:
        """(E, H): hidden states, there before the device has read the vocabulary."""
        self._wait(self.passed)
        return self.columns.hidden

    def reading(self) -> Reading:
        """What the row says, once the device has been waited for."""
        self._wait(self.ready)
        return self.columns

    def _wait(self, event: torch.cuda.Event | None) -> None:
        if event is not None:
            with memory_errors(self.model, self.tokens):
                event.synchronize()


@torch.inference_mode()
def start_row(
    tree: EvictionTree,
    part: Layout,
    model: Model,
    *,
    kernel: str,
    out: Head,
    compiled: bool | None = None,
) -> Pending:
    """Sends one row to the device and does not wait for what it says.

    Args:
        tree: Owns the target tokens.
        part: The row as it is fed.
        model: Runs it.
        kernel: As `choose_kernel` gave it.
        out: The model's output head.
        compiled: As `attention.hidden_states` takes it.
    """
    # Sent before the layers are launched: a copy waits for all that was launched before it.
    ids = tree.ids[tree.token[part.edges.target]].astype("int64")
    tokens = torch.from_numpy(ids).to(out.weight.device)
    query = torch.from_numpy(part.edges.query).to(model.device)
    hidden = hidden_states(model, part, kernel, compiled=compiled).index_select(0, query)
    kept, passed = _fetched(hidden), _event(hidden)
    # Fused, the passes over the logits cost a quarter; not worth the seconds for a small row.
    read = _compiled_reading if fuses(model, "sdpa", len(ids)) else _read_chunk
    with memory_errors(model, len(part.ids)):
        chunks = [read(out.logits(hidden[chunk]), tokens[chunk]) for chunk in out.chunks(len(ids))]
    nothing = (hidden.new_empty(0), hidden.new_empty(0), tokens[:0])
    columns = [torch.cat(column) for column in zip(*chunks, strict=True)] if chunks else nothing
    logprob, entropy, rank = (_fetched(column) for column in columns)
    ready = _event(hidden)
    return Pending(Reading(logprob, entropy, rank, kept), passed, ready, model, len(part.ids))


def _event(after: torch.Tensor) -> torch.cuda.Event | None:
    """When all is done that was launched on the tensor's device so far; None on the CPU."""
    if after.device.type != "cuda":
        return None
    event: torch.cuda.Event = torch.cuda.current_stream(after.device).record_event()
    return event


def _fetched(column: torch.Tensor) -> torch.Tensor:
    """A copy on the CPU, whole once the device has been waited for."""
    if column.device.type != "cuda":
        return column.cpu()
    kept = torch.empty(column.shape, dtype=column.dtype, pin_memory=True)
    return kept.copy_(column, non_blocking=True)


def _read_chunk(
    logits: torch.Tensor, tokens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probability, entropy and rank in two passes over the logits (E, V)."""
    chosen = logits.gather(1, tokens[:, None])
    top = logits.amax(dim=1, keepdim=True)
    rank = (logits > chosen).sum(dim=1)
    below = logits - top
    weight = below.exp()
    total = weight.sum(dim=1)
    # 0 * -inf must count as 0: a model may rule tokens out.
    mean = (weight * below.clamp_min(-1e30)).sum(dim=1) / total
    # Summed up in float64, where a device has it: half the rounding of a log-probability was here.
    wide = logits.dtype if logits.device.type == "mps" else torch.float64
    scale = total.to(wide).log()
    logprob = (chosen.to(wide) - top.to(wide))[:, 0] - scale
    return logprob.to(logits.dtype), (scale - mean).to(logits.dtype), rank


_compiled_reading = fused.compile_within_limits(_read_chunk, dynamic=True)


def head(model: Model) -> Head:
    """The model's output head; on the CPU cast to float32 if it is narrower."""
    layer = model.module.get_output_embeddings()  # type: ignore[no-untyped-call]  # transformers'
    if not isinstance(layer, torch.nn.Linear):
        raise ModelError(f"{model.name}: has no linear output head")
    kept = layer.weight.dtype
    if model.device.type != "cuda":
        kept = torch.promote_types(kept, torch.float32)
    config = model.module.config.get_text_config()
    return Head(
        weight=_whole(layer.weight).to(kept),
        bias=None if layer.bias is None else _whole(layer.bias).to(kept),
        scale=_scale(model),
        cap=getattr(config, "final_logit_softcapping", None),
    )


def _whole(weight: torch.Tensor) -> torch.Tensor:
    """The weight, put together from all devices if tensor parallelism has cut it."""
    gather = getattr(weight, "full_tensor", None)
    whole = weight if gather is None else gather()
    assert isinstance(whole, torch.Tensor)
    return whole


def _scale(model: Model) -> float:
    """Factor of the logits; model families name it differently and two divide by it."""
    config = model.module.config.get_text_config()
    scaling = getattr(config, "logits_scaling", None)
    if scaling is not None:
        return float(scaling) if config.model_type == "hyperclovax" else 1.0 / float(scaling)
    factor = getattr(config, "logit_scale", None)
    return 1.0 if factor is None else float(factor)
