"""Which attention kernel rows run on, which refuse a model, and when layers are compiled."""

from __future__ import annotations

import torch

from mwviz.engine import flex, fused
from mwviz.engine.model import Model
from mwviz.errors import ModelError

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
FUSE_FROM = 2048
"""Tokens of a row on CUDA from which compiling the layers (seconds, once) pays."""


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
