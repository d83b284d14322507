"""A decode loop that really evicts cache entries, or really encodes its context anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from mwviz.engine.model import Model
from mwviz.rollout import Call

SINKS, WINDOW = 2, 9


@dataclass
class Loop:
    """Tokens and their cache while a model decodes; every entry keeps its position."""

    model: Model
    cache: DynamicCache
    kept: list[int]
    """Places of the entries that are in the cache."""
    tokens: list[int]

    def feed(self) -> torch.Tensor:
        """Log-probabilities after the last token, whose entry joins the cache."""
        place = len(self.tokens) - 1
        output = self.model.module(
            input_ids=torch.tensor([self.tokens[-1:]]),
            position_ids=torch.tensor([[place]]),
            past_key_values=self.cache,
            use_cache=True,
        )
        self.kept.append(place)
        said: torch.Tensor = output.logits[0, -1].double().log_softmax(-1)
        return said

    def evict(self, stays: Callable[[int, int], bool]) -> bool:
        """Takes entries out of every layer; True if any went."""
        chosen = [i for i, place in enumerate(self.kept) if stays(place, len(self.tokens))]
        if len(chosen) == len(self.kept):
            return False
        for layer in self.cache.layers:
            assert isinstance(layer, DynamicLayer)
            assert layer.keys is not None
            assert layer.values is not None
            layer.keys, layer.values = layer.keys[:, :, chosen], layer.values[:, :, chosen]
        self.kept = [self.kept[i] for i in chosen]
        return True

    def refill(self) -> torch.Tensor:
        """Encodes what is left anew, at positions 0, 1, ...; log-probabilities behind it."""
        left = [*(self.tokens[place] for place in self.kept), self.tokens[-1]]
        self.cache, self.kept, self.tokens = DynamicCache(), [], []
        for token in left:
            self.tokens.append(token)
            said = self.feed()
        return said


def streaming(place: int, size: int) -> bool:
    """Sinks and a window that also holds the token about to be fed (StreamingLLM)."""
    return place < SINKS or place >= size - WINDOW


def call(loop: Loop, prompt: list[int], start: int, logprobs: list[float]) -> Call:
    return Call(
        id=str(start),
        prompt_ids=np.array(prompt, dtype=np.int32),
        completion_ids=np.array(loop.tokens[start:], dtype=np.int32),
        logprobs=np.array(logprobs, dtype=np.float32),
        temperature=1.0,
    )
