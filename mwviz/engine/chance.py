"""Whether passes draw random numbers, as dropout and router jitter do."""

from __future__ import annotations

import torch

State = tuple[torch.Tensor, ...]
"""Of all generators that a model's layers may draw from."""


def state(device: torch.device) -> State:
    """The generators of the CPU and of the model's kind of device, as they are now."""
    own: list[torch.Tensor] = []
    if device.type == "cuda":
        own = torch.cuda.get_rng_state_all()
    elif device.type == "mps":
        own = [torch.mps.get_rng_state()]
    return torch.get_rng_state(), *own


def drawn(device: torch.device, before: State) -> bool:
    """Whether any number was drawn since."""
    now = state(device)
    return any(not torch.equal(one, was) for one, was in zip(now, before, strict=True))
