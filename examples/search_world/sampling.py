"""Samples completions of many prompts at once with a model in this process.

One prefill of all prompts, then one decoding step a token, over a cache of fixed size: prompts are
padded on the left and every token keeps its own position. On CUDA the step is a captured graph, as
launching a small model's kernels one by one takes longer than running them. Letters: B prompts, P
longest prompt, S room in the cache.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from examples.search_world import grouped
from examples.search_world.cache import Cache, Store
from examples.search_world.episode import Request, Sampled, Sampler
from examples.search_world.room import Room
from mwviz.engine import vocabulary
from mwviz.engine.attention import running
from mwviz.engine.model import Model
from mwviz.rollout import Ints

UNIT, ROOM = 64, 256
"""On CUDA prompts are padded to a multiple of the first, caches to one of the second, and batches
to a power of two, so that graphs recur."""
HELD = 3 << 30
"""Bytes of the cache (B x S tokens), which is made once; more prompts are sampled in turns."""
NUMBERS = 1 << 27
"""Entries of a prefill's mask (B x P x P) held at once; more prompts are sampled in turns."""
CHECK = 8
"""Steps between two looks at whether all completions have ended: each look waits for the device."""


class ModelSampler(Sampler):
    """Samples at temperature 1 from the whole distribution.

    Args:
        model: as it is at each call; it may be trained in between.
        stop: the id that ends a completion.
        seed: of everything that is sampled.
        graphs: whether a decoding step is captured; None takes it on CUDA.
    """

    def __init__(
        self, model: Model, *, stop: int, seed: int = 0, graphs: bool | None = None
    ) -> None:
        self._model, self._stop = model, stop
        self._dice = torch.Generator(device=model.device).manual_seed(seed)
        self._graphs = model.device.type == "cuda" if graphs is None else graphs
        self._room = Room(HELD, least=HELD >> 8, what="bytes of cache")
        self._store = Store()
        self._steppers: dict[tuple[int, int], _Stepper] = {}

    def sample(self, requests: Sequence[Request]) -> list[Sampled]:
        """One completion a request, in order."""
        prompts = [request.prompt_ids for request in requests]
        return self.complete(prompts, [request.limit for request in requests])

    @torch.no_grad()
    def complete(self, prompts: Sequence[Ints], limits: Sequence[int]) -> list[Sampled]:
        """One completion a prompt, of at most its limit of tokens.

        Args:
            prompts: int32, at least one token each.
            limits: of each of them.
        """
        training = self._model.module.training
        self._model.module.train(mode=False)
        with running(self._model, grouped.NAME):
            found = self._room.fit(lambda most: self._in_parts(prompts, limits, most))
        self._model.module.train(mode=training)
        return found

    def _in_parts(self, prompts: Sequence[Ints], limits: Sequence[int], most: int) -> list[Sampled]:
        """All completions, with a cache of at most so many bytes at once."""
        found: list[Sampled | None] = [None] * len(prompts)
        parts = _parts(
            prompts,
            max(limits, default=0),
            tokens=most // self._token_bytes,
            numbers=NUMBERS * most // HELD,
            padded=self._model.device.type == "cuda",
        )
        for part in parts:
            try:
                done = self._batch([prompts[i] for i in part], [limits[i] for i in part])
            except RuntimeError:
                # Whatever it was, the next attempt begins with empty hands.
                self._steppers.clear()
                self._store.clear()
                raise
            for index, sampled in zip(part, done, strict=True):
                found[index] = sampled
        return [sampled for sampled in found if sampled is not None]

    def _batch(self, prompts: Sequence[Ints], limits: Sequence[int]) -> list[Sampled]:
        batch = _Batch.of(prompts, max(limits), self._model)
        stepper = self._stepper(batch)
        hidden = stepper.prefill(batch)
        head = vocabulary.head(self._model)
        most = torch.tensor([*limits] + [0] * (batch.size - len(limits)), device=self._model.device)
        ids, scores = [], []
        for step in range(max(limits)):
            known = head.log_softmax(hidden)
            noise = torch.empty_like(known).exponential_(generator=self._dice)
            chosen = (known - noise.log()).argmax(1)
            ids.append(chosen)
            scores.append(known.gather(1, chosen[:, None])[:, 0])
            ended = (chosen == self._stop) | (step + 1 >= most)
            most = torch.where(ended, torch.zeros_like(most), most)
            if step + 1 == max(limits) or (step % CHECK == CHECK - 1 and not most.any()):
                break
            hidden = stepper.step(chosen, step)
        return _cut(torch.stack(ids, 1), torch.stack(scores, 1), limits, self._stop)

    def _stepper(self, batch: _Batch) -> _Stepper:
        """One for each size that was met, so that its graph is used again; all share one cache."""
        if self._store.grow(batch.size * batch.room):
            self._steppers.clear()
        key = (batch.size, batch.room)
        if key not in self._steppers:
            self._steppers[key] = _Stepper(self._model, batch, self._store, graphs=self._graphs)
        return self._steppers[key]

    @property
    def _token_bytes(self) -> int:
        """Of one token's keys and values, in all layers."""
        config = self._model.module.config.get_text_config()
        width = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        numbers = 2 * config.num_hidden_layers * config.num_key_value_heads * width
        return int(numbers * self._model.dtype.itemsize)


class _Batch(NamedTuple):
    """Prompts as one rectangle, on the device."""

    ids: torch.Tensor
    """int64 (B, P), padded on the left."""
    pads: torch.Tensor
    """int64 (B,): pads in front of each prompt."""
    room: int
    """S."""

    @property
    def size(self) -> int:
        """B."""
        return len(self.ids)

    @classmethod
    def of(cls, prompts: Sequence[Ints], limit: int, model: Model) -> _Batch:
        """The prompts with room for so many tokens behind them."""
        size, longest, room = _shape(
            len(prompts), max(map(len, prompts)), limit, padded=model.device.type == "cuda"
        )
        ids = np.zeros((size, longest), dtype=np.int64)
        pads = np.full(size, longest - 1)
        for row, prompt in enumerate(prompts):
            pads[row] = longest - len(prompt)
            ids[row, pads[row] :] = prompt
        device = model.device
        return cls(torch.from_numpy(ids).to(device), torch.from_numpy(pads).to(device), room)


class _Stepper:
    """Prefill and decoding steps of one size."""

    def __init__(self, model: Model, batch: _Batch, store: Store, *, graphs: bool) -> None:
        self._model, self._graphs, self._store = model, graphs, store
        device, size = model.device, batch.size
        self._at = torch.zeros(1, dtype=torch.int64, device=device)
        self._cache = Cache(batch.room, self._at, store)
        base = model.module.base_model
        known = inspect.signature(base.forward).parameters
        self._argument = "cache" if "cache" in known else "past_key_values"
        self._keys = torch.arange(batch.room, device=device)
        self._ids = torch.zeros(size, 1, dtype=torch.int64, device=device)
        self._pads = torch.zeros(size, 1, dtype=torch.int64, device=device)
        self._graph: Callable[[], None] | None = None
        self._hidden: torch.Tensor | None = None
        self._start = 0

    def prefill(self, batch: _Batch) -> torch.Tensor:
        """(B, H): final hidden states of the last tokens of the prompts."""
        length = batch.ids.shape[1]
        self._pads.copy_(batch.pads[:, None])
        self._start = length
        at = self._keys[:length]
        # A pad sees itself: a row of the softmax must not be empty.
        seen = (at[None, :] <= at[:, None]) & (at >= self._pads[:, :, None])
        seen |= torch.eye(length, dtype=torch.bool, device=at.device)
        positions = (at[None] - self._pads).clamp_min(0)
        return self._run(batch.ids, positions, seen)[:, -1]

    def step(self, chosen: torch.Tensor, step: int) -> torch.Tensor:
        """(B, H): final hidden states behind one more token each; valid until the next step."""
        self._ids.copy_(chosen[:, None])
        self._at.fill_(self._start + step)
        if not self._graphs:
            return self._one()
        if self._graph is None:
            try:
                self._graph = self._capture()
            except RuntimeError as error:
                warnings.warn(f"decoding steps are not captured: {error}", stacklevel=2)
                self._graphs = False
                return self._one()
        self._graph()
        assert self._hidden is not None
        return self._hidden

    def _one(self) -> torch.Tensor:
        seen = (self._keys <= self._at) & (self._keys >= self._pads)
        return self._run(self._ids, self._at - self._pads, seen[:, None])[:, -1]

    def _capture(self) -> Callable[[], None]:
        """A graph of one step; running a step more than once changes nothing."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._one()
        torch.cuda.current_stream().wait_stream(side)
        if self._store.pool is None:
            self._store.pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._store.pool):
            self._hidden = self._one()
        return graph.replay

    def _run(self, ids: torch.Tensor, positions: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """(B, T, H) of ids (B, T), positions (B, T) and visibility (B, T, keys)."""
        dtype = self._model.dtype
        mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
        mask = mask.masked_fill_(~seen, torch.finfo(dtype).min)[:, None]
        arguments = {self._argument: self._cache}
        states: torch.Tensor = self._model.module.base_model(
            input_ids=ids, position_ids=positions, attention_mask=mask, use_cache=True, **arguments
        ).last_hidden_state
        return states


def _shape(count: int, longest: int, limit: int, *, padded: bool) -> tuple[int, int, int]:
    """(B, P, S) of so many prompts; `padded` rounds them up so that sizes recur."""
    if not padded:
        return count, longest, longest + limit
    longest = -(-longest // UNIT) * UNIT
    return 1 << (count - 1).bit_length(), longest, -(-(longest + limit) // ROOM) * ROOM


def _parts(
    prompts: Sequence[Ints], limit: int, *, tokens: int, numbers: int, padded: bool
) -> Iterator[list[int]]:
    """Indices of prompts that are sampled together: of like lengths, and not too many.

    Args:
        prompts: all of them.
        limit: tokens that each may be continued by.
        tokens: most of a cache, padding and continuations included.
        numbers: most entries of a prefill's mask.
        padded: whether sizes are rounded up.
    """
    part: list[int] = []
    for index in sorted(range(len(prompts)), key=lambda i: len(prompts[i])):
        size, length, room = _shape(len(part) + 1, len(prompts[index]), limit, padded=padded)
        if part and (size * length**2 > numbers or size * room > tokens):
            yield part
            part = []
        part.append(index)
    if part:
        yield part


def _cut(
    ids: torch.Tensor, scores: torch.Tensor, limits: Sequence[int], stop: int
) -> list[Sampled]:
    """Each completion up to its end or its limit."""
    chosen, known = ids.cpu().numpy(), scores.float().cpu().numpy()
    found = []
    for row, limit in enumerate(limits):
        ends = np.flatnonzero(chosen[row, :limit] == stop)
        length = int(ends[0]) + 1 if len(ends) else min(limit, chosen.shape[1])
        found.append(Sampled(chosen[row, :length].astype(np.int32), known[row, :length].copy()))
    return found
