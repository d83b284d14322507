"""Turns a row and its mask into a forward pass.

A causal row runs through the model's own kernel. A packed (`tree`) row gives the model an explicit
mask, handed to a registered attention function, so that nothing is guessed from position ids and
nothing that would change the scores is dropped: a block mask for FlexAttention on CUDA, a dense
additive one elsewhere. Several causal rows run as the lines of one batch. Letters: T tokens of a
row, or of all lines; H width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from mwviz.engine import dense, flex, fused
from mwviz.engine.feed import offsets, prepare
from mwviz.engine.kernels import fuses
from mwviz.engine.layout import Layout
from mwviz.engine.model import Model, memory_errors
from mwviz.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_ALWAYS = (flex.NAME, dense.NAME, "sdpa", "eager")
"""Implementations that need no check that a package is there."""


def hidden_states(
    model: Model,
    part: Layout,
    kernel: str,
    *,
    compiled: bool | None = None,
    recompute: bool = False,
) -> torch.Tensor:
    """(T, H): final hidden states, the input of the vocabulary product, in the model's dtype.

    Args:
        model: Runs in whatever gradient mode the caller has set.
        part: One row, or the lines of a batch.
        kernel: As `kernels.choose_kernel` gave it.
        compiled: Whether the layers run compiled; None decides by the longest line's length.
        recompute: Whether layers run again in the backward pass instead of keeping what it needs.

    Raises:
        ModelError: The row is too long for a dense mask, or memory ran out.
    """
    compiled = fuses(model, kernel, part.longest) if compiled is None else compiled
    feed = prepare(model, part, kernel, compiled=compiled)
    ids = torch.from_numpy(feed.ids).to(model.device)
    arguments: dict[str, object] = {"input_ids": ids, "use_cache": False}
    if model.capability.positions:
        arguments["position_ids"] = torch.from_numpy(feed.positions).to(model.device)
    elif not np.array_equal(part.positions, offsets(part)):
        raise ModelError(f"{model.name}: takes no position ids, but this row needs its own")
    # All ones, not None: without a mask packed documents are guessed from position ids.
    arguments["attention_mask"] = torch.ones_like(ids) if feed.mask is None else feed.mask
    # Sent before the layers are launched: a copy waits for all that was launched before it.
    place = None if feed.place is None else torch.from_numpy(feed.place).to(model.device)
    how = running(model, feed.implementation, compiled=compiled, recompute=recompute)
    with how, memory_errors(model, len(part.ids)):
        hidden = model.module.base_model(**arguments).last_hidden_state.flatten(0, 1)
    assert isinstance(hidden, torch.Tensor)
    hidden = hidden.to(model.device)  # the last layers may be on another one
    return hidden[: len(part.ids)] if place is None else hidden.index_select(0, place)


@contextmanager
def running(
    model: Model, implementation: str, *, compiled: bool = False, recompute: bool = False
) -> Iterator[None]:
    """Makes the attention layers run `implementation`, and what they ran before afterwards.

    Args:
        model: Whose layers.
        implementation: A name that transformers knows, or one registered here.
        compiled: Whether the layers run compiled.
        recompute: Whether they run again in the backward pass.
    """
    module = model.module
    config = module.config
    before = config._attn_implementation
    _implement(model, implementation)
    again = partial(_named, config, implementation)
    recompute = recompute or (module.training and fused.checkpoints(module))
    try:
        with (
            _fast_causal(model, implementation, compiled=compiled),
            fused.layers_run(module, compiled=compiled, recompute=recompute, again=again),
        ):
            yield
    finally:
        config._attn_implementation = before


def _implement(model: Model, implementation: str) -> None:
    """Names what the layers run; transformers checks what it has to load first."""
    if implementation in _ALWAYS:
        model.module.config._attn_implementation = implementation
        return
    try:
        model.module.set_attn_implementation(implementation)
    except (ValueError, ImportError) as error:
        raise ModelError(
            f"{model.name}: kernel {implementation} cannot be used: {error}"
        ) from error


@contextmanager
def _named(config: PreTrainedConfig, implementation: str) -> Iterator[None]:
    """What a layer needs to run again in the backward pass, after `running` has ended."""
    before = config._attn_implementation
    config._attn_implementation = implementation
    try:
        yield
    finally:
        config._attn_implementation = before


def _fast_causal(
    model: Model, implementation: str, *, compiled: bool
) -> AbstractContextManager[None]:
    """Prefers cuDNN's attention, the fastest for long causal rows on the cards that have it."""
    if not compiled or implementation != "sdpa" or model.precision not in ("bfloat16", "float16"):
        return nullcontext()
    names = ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
    backends = [getattr(SDPBackend, name) for name in names]
    preferred: AbstractContextManager[None] = sdpa_kernel(backends, set_priority=True)
    return preferred
