"""Keys and values of a batch that is sampled: one piece of memory for batches of every size.

Letters: B prompts, S room in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Store:
    """The memory of all caches: only one batch is sampled at a time, whatever its size.

    A batch's tensors are views of it, so a captured graph finds them in the same place again.
    """

    def __init__(self) -> None:
        self._tokens = 0
        self._flat: dict[tuple[int, int], torch.Tensor] = {}
        self.pool: Any = None
        """Where captured graphs keep what they need while they run; one runs at a time."""

    def grow(self, tokens: int) -> bool:
        """Makes room for a batch; whether it had to, which moves the memory of all others."""
        if tokens <= self._tokens:
            return False
        self.clear()
        self._tokens = tokens
        return True

    def clear(self) -> None:
        """Gives all of it back."""
        self._flat.clear()
        self._tokens, self.pool = 0, None

    def view(self, layer: int, side: int, shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
        """Keys (side 0) or values (1) of a layer: a tensor (B, heads, S, width) of the memory."""
        batch, heads, room, width = shape
        key = (layer, side)
        if key not in self._flat:
            self._flat[key] = like.new_zeros(self._tokens * heads * width)
        return self._flat[key][: batch * heads * room * width].view(batch, heads, room, width)


class Cache:
    """Keys and values of all layers in tensors of fixed size; what transformers asks of a cache."""

    def __init__(self, room: int, at: torch.Tensor, store: Store) -> None:
        self._room, self._at, self._store = room, at, store
        self._held: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Stores a prefill, or one token at `at`; gives what attention may look at."""
        length = keys.shape[2]
        if layer_idx not in self._held:
            self._held[layer_idx] = (
                self._view(layer_idx, 0, keys),
                self._view(layer_idx, 1, values),
            )
        held = self._held[layer_idx]
        if length > 1:
            for whole, part in zip(held, (keys, values), strict=True):
                whole[:, :, :length] = part
            return keys, values
        for whole, part in zip(held, (keys, values), strict=True):
            whole.index_copy_(2, self._at, part)
        return held

    def _view(self, layer: int, side: int, like: torch.Tensor) -> torch.Tensor:
        shape = (*like.shape[:2], self._room, like.shape[3])
        return self._store.view(layer, side, shape, like)

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002
        """Never used where positions and mask are given; transformers asks all the same."""
        return 0
