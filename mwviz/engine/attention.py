"""Turns a row and its mask into a forward pass: the only place that knows attention kernels.

A causal row runs through the model's own kernel. A packed (`tree`) row gives the model an explicit
mask, handed to a registered attention function, so that nothing is guessed from position ids and
nothing that would change the scores is dropped: a block mask for FlexAttention on CUDA, a dense
additive one elsewhere. Several causal rows run as the lines of one batch: what pads a line stands
behind all that its tokens see. Letters: T tokens of a row, or of all lines; H width; B lines; S
tokens of a line as it is fed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import BlockMask

from mwviz.engine import dense, flex, fused, order, pieces
from mwviz.engine.layout import Layout, layout, slides
from mwviz.engine.model import Model, memory_errors
from mwviz.errors import ModelError
from mwviz.trie import Longs
from mwviz.views.view import View

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

__all__ = [
    "KERNELS",
    "Layout",
    "choose_kernel",
    "fuses",
    "fuses_any",
    "hidden_states",
    "layout",
    "running",
]

KERNELS = (
    *("auto", "split", "varlen", "flex", "sdpa", "eager"),
    *("flash_attention_2", "flash_attention_3"),
)
PIECED = ("split", "varlen")
"""Kernels that leave large regular pieces to cuDNN."""
BLOCKED = (*PIECED, "flex")
"""Kernels that take a block mask."""
HOPPER = (9, 0)
"""Compute capability from which cuDNN's attention is faster than FlexAttention's."""
SPLIT_POSITIONS = 8192
"""Positions a model must have so that `split` can prove itself on a row with large pieces."""
MAX_DENSE = 8192
"""Tokens of a packed row that may get a dense mask: 268 MB in float32."""
_ALWAYS = (flex.NAME, dense.NAME, "sdpa", "eager")
"""Implementations that need no check that a package is there."""
FUSE_FROM = 2048
"""Tokens of a row on CUDA from which compiling the layers (seconds, once) pays."""
FUSED_UNIT = 256
"""A compiled causal row is padded to a multiple of this: cuDNN plans each length anew."""


def check_kernel(kernel: str) -> None:
    """Does nothing for the name of a kernel, or `auto`.

    Raises:
        ModelError: It is neither.
    """
    if kernel not in KERNELS:
        raise ModelError(f"unknown kernel {kernel!r}; expected one of {', '.join(KERNELS)}")


def choose_kernel(model: Model, *, packed: bool, kernel: str = "auto") -> str:
    """The kernel that rows of one kind run on.

    Raises:
        ModelError: The kernel is unknown, or this model cannot be given a packed mask with it.
    """
    check_kernel(kernel)
    can = model.capability
    wanted = _preferred(model, packed=packed) if kernel == "auto" else kernel
    if packed and can.refusals:
        raise ModelError(
            f"{model.name}: a packed mask cannot be used: {'; '.join(can.refusals)}. "
            "logit_tree gives the same scores"
        )
    # The model's own wish counts only where running it otherwise would hide that it leaks.
    asked = can.requested if kernel == "auto" and can.requested else wanted
    if packed and asked.startswith("flash_attention"):
        raise ModelError(
            f"{model.name}: {asked} takes no 4D mask, so a packed row would leak; "
            "take logit_tree, or kernel sdpa or eager"
        )
    if wanted in BLOCKED:
        reason = _flex_refusal(model) if wanted == "flex" else _pieces_refusal(model)
        if reason:
            raise ModelError(f"{model.name}: kernel {wanted} {reason}")
        return wanted
    if wanted not in can.kernels and not wanted.startswith("flash_attention"):
        raise ModelError(
            f"{model.name}: kernel {wanted} cannot apply this model's attention; "
            f"expected one of {', '.join(can.kernels)}"
        )
    return wanted


def _preferred(model: Model, *, packed: bool) -> str:
    if packed and _flex_refusal(model) is None:
        return "flex" if _pieces_refusal(model) else "split"
    return model.capability.kernels[0]


def _flex_refusal(model: Model) -> str | None:
    """Why FlexAttention cannot run this model here; None if it can."""
    can = model.capability
    if model.device.type != "cuda":
        return f"has no backward pass on {model.device.type}; take {can.kernels[0]}"
    if "sdpa" not in can.kernels:
        return f"cannot apply this model's attention; take {can.kernels[0]}"
    config = model.module.config.get_text_config()
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if width < flex.MIN_HEAD:
        return f"needs heads of at least {flex.MIN_HEAD} numbers, not {width}; take sdpa"
    return None


def _pieces_refusal(model: Model) -> str | None:
    """Why cuDNN's attention cannot take part; None if it can."""
    reason = _flex_refusal(model)
    if reason:
        return reason
    limit = model.max_positions
    if model.precision not in ("bfloat16", "float16"):
        return f"runs in 16 bits only, not in {model.precision}; take flex"
    if torch.cuda.get_device_capability(model.device) < HOPPER:
        return "pays from compute capability 9.0 on; take flex"
    if limit is not None and limit < SPLIT_POSITIONS:
        return f"cannot be checked on a model of {limit} positions; take flex"
    return None


def fuses(model: Model, kernel: str, tokens: int) -> bool:
    """Whether a row of so many tokens runs through compiled layers: on CUDA, if it is long."""
    if model.device.type != "cuda" or not fused.can_compile(model.module):
        return False
    return kernel in BLOCKED or (kernel == "sdpa" and tokens >= FUSE_FROM)


def fuses_any(model: Model, view: View, kernel: str) -> bool:
    """Whether some row of a view runs through compiled layers."""
    return any(fuses(model, kernel, row.size) for row in view.rows)


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
        kernel: As `choose_kernel` gave it.
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
    elif not np.array_equal(part.positions, _offsets(part)):
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


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    """Lines in the order and length in which a kernel takes them; almost always one."""

    ids: Longs
    """int64 (B, S), as the positions."""
    positions: Longs
    implementation: str
    """Name of the attention function."""
    mask: BlockMask | torch.Tensor | dict[str, torch.Tensor] | dict[str, BlockMask] | None
    """None if causal."""
    place: Longs | None = None
    """int64 (T,): where each token stands in all B x S; None if at its own index."""


def prepare(model: Model, part: Layout, kernel: str, *, compiled: bool) -> Feed:
    """The row as a kernel takes it, with its mask on the device.

    Args:
        model: Will run it.
        part: One row, or the lines of a batch.
        kernel: As `choose_kernel` gave it.
        compiled: Whether the layers will run compiled.

    Raises:
        ModelError: The row is too long for a dense mask.
    """
    if part.lines is not None:
        return _feed_lines(part, kernel, unit=FUSED_UNIT if compiled else 1)
    ids, positions, size = part.ids.astype(np.int64), part.positions, len(part.ids)
    if kernel in BLOCKED:
        return _feed_blocks(model, part, kernel)
    if part.visible_until is not None:
        if size > MAX_DENSE:
            raise ModelError(
                f"a packed row of {size} tokens needs a dense mask of more than "
                f"{MAX_DENSE} x {MAX_DENSE}; logit_tree gives the same scores"
            )
        name = dense.NAME if kernel == "sdpa" else kernel
        return Feed(ids[None], positions[None], name, dense.masks(model, part))
    longer = flex.padded(size, FUSED_UNIT) if compiled else size
    return Feed(_lengthened(ids, longer), _lengthened(positions, longer), kernel, None)


def _feed_lines(part: Layout, kernel: str, *, unit: int) -> Feed:
    """Each line padded behind its end to the longest one's length, a multiple of `unit`."""
    assert kernel not in BLOCKED
    assert part.visible_until is None
    lengths, longer = part.lengths, flex.padded(part.longest, unit)
    place = _offsets(part) + np.repeat(np.arange(len(lengths)) * longer, lengths)
    both = np.zeros((2, len(lengths) * longer), dtype=np.int64)
    both[0, place], both[1, place] = part.ids, part.positions
    ids, positions = both.reshape(2, len(lengths), longer)
    return Feed(ids, positions, kernel, None, place)


def _offsets(part: Layout) -> Longs:
    """int64 (T,): index of each token in its line."""
    first = 0 if part.lines is None else np.repeat(part.lines, part.lengths)
    return np.arange(len(part.ids)) - first


def _feed_blocks(model: Model, part: Layout, kernel: str) -> Feed:
    ids, positions, size = part.ids.astype(np.int64), part.positions, len(part.ids)
    sliding = slides(model, part)
    kernel = "flex" if sliding else kernel
    until, place = part.visible_until, None
    if until is None:
        until = np.full(size, size)
    else:
        heavy = order.heavy_first(until)
        kernel = "flex" if heavy is None else kernel
        if heavy is not None:
            ids, positions = ids[heavy.token], positions[heavy.token]
            until, place = heavy.visible_until, heavy.place
    longer = flex.padded(size)
    if not sliding:
        until = flex.lengthened(until)
    mask = _block_masks(model, until, positions, kernel=kernel, sliding=sliding)
    return Feed(_lengthened(ids, longer), _lengthened(positions, longer), flex.NAME, mask, place)


def _lengthened(values: Longs, size: int) -> Longs:
    """int64 (1, S): one line of values with zeros behind."""
    return np.concatenate((values, np.zeros(size - len(values), dtype=np.int64)))[None]


def _block_masks(
    model: Model, until: Longs, positions: Longs, *, kernel: str, sliding: bool
) -> BlockMask | dict[str, BlockMask]:
    """One block mask, or one for each layer type where sliding layers would see less."""
    can = model.capability
    taken = pieces.largest(until) if kernel in PIECED else ()
    full = partial(_block_mask, model, until, without=taken, gathered=kernel == "varlen")
    if not sliding:
        return full()
    windowed = _block_mask(model, until, positions=positions, window=can.window)
    if not can.masks_by_type:
        return windowed
    return {"full_attention": full(), "sliding_attention": windowed}


def _block_mask(model: Model, until: Longs, **rule: Any) -> BlockMask:
    def build(device: torch.device) -> BlockMask:
        return flex.block_mask(until, device=device, **rule)

    return flex.spread(build, model.device) if model.spread else build(model.device)


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
