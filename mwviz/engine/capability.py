"""What a model's layers can do: why a packed mask would not reach them, and which layers slide.

Reads the loaded module and its configuration, never the weights. What it cannot see is left to the
numeric check of `mwviz.engine.check`.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

MASKABLE = ("full_attention", "sliding_attention")
"""Layer types whose mask can be given from outside."""

_CARRIES_STATE = re.compile(
    "Mamba|Rwkv|RWKV|xLSTM|DeltaNet|Recurrent|ShortConv|LinearAttention|LightningAttention"
)
"""Class names of layers that pass a state from token to token."""

_EXPERT_LIMITS = (
    "expert_capacity",
    "capacity_factor",
    "expert_capacity_factor",
    "eval_capacity_factor",
    "moe_capacity_factor",
    "moe_eval_capacity_factor",
    "moe_expert_capacity_factor",
    "moe_eval_capacity_token_fraction",
    "router_capacity_factor_eval",
)
"""Fields of configurations, and of routers, that limit the tokens an expert takes of a row."""
_DROPS = ("drop_tokens", "moe_drop_tokens")
"""Fields that say, where they are False, that the limit is not applied."""


@dataclass(frozen=True, slots=True)
class Capability:
    """How a model can be given a mask."""

    layers: tuple[str, ...]
    """Kind of each layer, in order: `full_attention`, `sliding_attention` or what else."""
    window: int | None
    """Tokens that a sliding layer sees, itself included; None if no layer slides."""
    masks_by_type: bool
    """True if the model takes one mask for each layer type instead of one for all layers."""
    requested: str | None
    """Attention implementation that the model's own configuration asks for."""
    kernels: tuple[str, ...]
    """Kernels that its attention supports, the preferred one first."""
    positions: bool
    """True if position ids can be given."""
    refusals: tuple[str, ...]
    """Why packed masks are refused; empty if they are not."""


class _Layers(NamedTuple):
    types: tuple[str, ...]
    window: int | None
    masks_by_type: bool


def capability(module: PreTrainedModel, requested: str | None) -> Capability:
    """Kinds of layers, kernels and reasons against packed masks of a loaded model."""
    config = module.config.get_text_config()
    layers = _layers(config)
    # Only the model's own eager attention applies soft caps and attention sinks.
    capped = getattr(config, "attn_logit_softcapping", None) is not None
    fused = module._supports_sdpa and not capped and not _has_sinks(module)
    parameters = inspect.signature(module.base_model.forward).parameters
    positions = "position_ids" in parameters
    return Capability(
        layers=layers.types,
        window=layers.window,
        masks_by_type=layers.masks_by_type,
        requested=requested,
        kernels=("sdpa", "eager") if fused else ("eager",),
        positions=positions,
        refusals=tuple(_refusals(module, layers, positions=positions)),
    )


def _layers(config: PreTrainedConfig) -> _Layers:
    count = getattr(config, "num_hidden_layers", 0)
    window = getattr(config, "sliding_window", None)
    window = window if getattr(config, "use_sliding_window", True) else None
    types = getattr(config, "layer_types", None)
    if types:
        slides = "sliding_attention" in types
        return _Layers(tuple(types), window if slides else None, masks_by_type=True)
    kind = "full_attention" if window is None else "sliding_attention"
    return _Layers((kind,) * count, window, masks_by_type=False)


def _refusals(module: PreTrainedModel, layers: _Layers, *, positions: bool) -> list[str]:
    config = module.config.get_text_config()
    found = []
    strange = sorted(set(layers.types) - set(MASKABLE))
    if strange:
        first = layers.types.index(strange[0])
        found.append(f"its layers are {', '.join(strange)} (from layer {first} on)")
    stateful = _stateful(module)
    if stateful:
        found.append(f"{stateful} carries a state from token to token")
    limit = _expert_limit(module)
    if limit:
        found.append(f"its experts drop tokens beyond a capacity ({limit}) that all of a row share")
    if getattr(config, "alibi", False) or config.model_type in ("bloom", "mpt"):
        found.append("ALiBi measures distance in the packed row instead of the context")
    if getattr(config, "index_topk", None) is not None:
        found.append("sparse attention selects its keys in the packed row")
    if not positions:
        found.append("it takes no position ids")
    if not module._supports_attention_backend:
        found.append("its attention cannot be given another kernel")
    return found


def _stateful(module: PreTrainedModel) -> str | None:
    """Class name of a part that mixes tokens other than by attention."""
    if getattr(module, "_is_stateful", False):
        return type(module).__name__
    for part in module.modules():
        if isinstance(part, torch.nn.Conv1d) or _CARRIES_STATE.search(type(part).__name__):
            return type(part).__name__
    return None


def _expert_limit(module: PreTrainedModel) -> str | None:
    """What limits the tokens of an expert, with its value; None where every token is taken.

    An expert full of one branch's tokens would drop another's.
    """
    config = module.config.get_text_config()
    if any(getattr(config, name, True) is False for name in _DROPS):
        return None
    for part in (config, *module.modules()):
        held = vars(part)
        for name in _EXPERT_LIMITS:
            value = held.get(name)
            if isinstance(value, int | float) and value > 0:
                where = "" if part is config else f"{type(part).__name__}."
                return f"{where}{name} {value:g}"
    return None


def _has_sinks(module: PreTrainedModel) -> bool:
    return any(name.endswith(".sinks") for name, _ in module.named_parameters())
