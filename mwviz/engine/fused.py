"""Runs a model's decoder layers compiled, recomputed in the backward pass, or both.

One compiled graph serves all layers and all lengths, one more all batches. The module's own
`forward` methods are put back afterwards; nothing of the model's code is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial, wraps
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
import torch._dynamo
import torch._functorch.config
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

GRAPHS = 64
"""Graphs kept for one function: kinds of layers x kernels x dtypes x with or without grad x one row
or several, or models x devices; dynamo's own limit is 8."""

_LIMITS: dict[str, Any] = {
    "recompile_limit": GRAPHS,
    "accumulated_recompile_limit": 4 * GRAPHS,
    "fail_on_recompile_limit_hit": True,
}

_KEEPS: dict[str, Any] = {"ban_recompute_materialized_backward": False}
"""Norms, rotated queries and keys and the inner activation are made again in the backward pass from
what is kept anyway: 3/10 less memory, about 1 % more time."""

Function = TypeVar("Function", bound=Callable[..., Any])

Contexts = Callable[[], tuple[AbstractContextManager[None], AbstractContextManager[None]]]


_known: WeakKeyDictionary[torch.nn.Module, tuple[torch.nn.Module, ...]] = WeakKeyDictionary()
"""Layers by model: looking through all modules takes longer than launching a layer."""
_numbers: WeakKeyDictionary[torch.nn.Module, int] = WeakKeyDictionary()
"""Parameters of the layers' matrices by model, for the same reason."""


def decoder_layers(module: torch.nn.Module) -> tuple[torch.nn.Module, ...]:
    """The layers that hold almost all of a model's work, outermost ones only."""
    if module not in _known:
        _known[module] = _outermost(module)
    return _known[module]


def _outermost(module: torch.nn.Module) -> tuple[torch.nn.Module, ...]:
    found: list[torch.nn.Module] = []
    inside: set[int] = set()
    for layer in module.modules():
        if isinstance(layer, GradientCheckpointingLayer) and id(layer) not in inside:
            found.append(layer)
            inside.update(id(part) for part in layer.modules())
    return tuple(found)


def matrix_numbers(module: torch.nn.Module) -> int:
    """Parameters of all matrices of the decoder layers."""
    if module not in _numbers:
        parts = (part for layer in decoder_layers(module) for part in layer.parameters())
        _numbers[module] = sum(part.numel() for part in parts if part.dim() > 1)
    return _numbers[module]


def checkpoints(module: torch.nn.Module) -> bool:
    """Whether the library's own gradient checkpointing is on."""
    return any(getattr(layer, "gradient_checkpointing", False) for layer in decoder_layers(module))


def can_compile(module: torch.nn.Module) -> bool:
    """Whether the layers are known and no other library has put itself between them.

    Tensor parallelism, which cuts weights and gathers what they give, counts as one.
    """
    layers = decoder_layers(module)
    if sharded(module):
        return False
    return bool(layers) and not any("forward" in vars(layer) for layer in layers)


def sharded(module: torch.nn.Module) -> bool:
    """Whether this process holds only a part of the layers' weights (`tp_plan`)."""
    layers = decoder_layers(module)[:1]
    return any(hasattr(part, "full_tensor") for layer in layers for part in layer.parameters())


def compile_within_limits(function: Function, *, dynamic: bool | None = None) -> Function:
    """`torch.compile`, but with up to `GRAPHS` graphs, and an error where more are asked for.

    Past dynamo's own limit a function runs uncompiled in silence, a layer with a T x T array.
    """
    compiled = torch.compile(function, dynamic=dynamic)

    @wraps(function)
    def run(*inputs: Any, **named: Any) -> Any:
        if torch._dynamo.config.recompile_limit >= GRAPHS:
            return compiled(*inputs, **named)
        with torch._dynamo.config.patch(_LIMITS):
            return compiled(*inputs, **named)

    return cast("Function", run)


@contextmanager
def layers_run(
    module: torch.nn.Module,
    *,
    compiled: bool,
    recompute: bool,
    again: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[None]:
    """Makes the decoder layers run compiled, recomputed, or both; as before afterwards.

    Args:
        module: The model; the library's own gradient checkpointing is replaced by this one.
        compiled: Whether layers are compiled; `can_compile` must hold.
        recompute: Whether only the layers' inputs are kept for the backward pass.
        again: What must hold while a layer runs again in the backward pass.
    """
    if not compiled and not recompute:
        yield
        return
    layers = decoder_layers(module)
    before = [dict(vars(layer)) for layer in layers]
    for layer in layers:
        own = vars(layer).get("forward") or partial(_run, layer)
        run = partial(_compiled, layer) if compiled else own
        run = partial(_recomputed, run, partial(_replayed, layer, again)) if recompute else run
        vars(layer).update(forward=run, gradient_checkpointing=False)
    try:
        # Once for all layers: `compile_within_limits` would do it for each.
        with torch._dynamo.config.patch(_LIMITS), torch._functorch.config.patch(_KEEPS):
            yield
    finally:
        for layer, was in zip(layers, before, strict=True):
            for name in ("forward", "gradient_checkpointing"):
                vars(layer).pop(name)
                if name in was:
                    vars(layer)[name] = was[name]


def _run(layer: torch.nn.Module, *inputs: Any, **named: Any) -> Any:
    return type(layer).forward(layer, *inputs, **named)


_compiled = compile_within_limits(_run, dynamic=True)


@contextmanager
def _replayed(
    layer: torch.nn.Module, again: Callable[[], AbstractContextManager[None]]
) -> Iterator[None]:
    """Keeps the library from checkpointing within what is checkpointed already."""
    name = "gradient_checkpointing"
    before = {name: vars(layer)[name]} if name in vars(layer) else {}
    vars(layer)[name] = False
    try:
        with again():
            yield
    finally:
        vars(layer).pop(name)
        vars(layer).update(before)


def _recomputed(
    run: Callable[..., Any],
    again: Callable[[], AbstractContextManager[None]],
    *inputs: Any,
    **named: Any,
) -> Any:
    if not torch.is_grad_enabled():
        return run(*inputs, **named)
    contexts: Contexts = lambda: (nullcontext(), again())  # noqa: E731
    return checkpoint(run, *inputs, use_reentrant=False, context_fn=contexts, **named)
