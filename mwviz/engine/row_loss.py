"""A row's loss, sent back in smaller pieces where memory runs out, its gradient added once.

A backward pass reaches one parameter after another. Where it ends half-way, the parameters that
have their part are known, and smaller pieces of the row then reach the others only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

import torch

from mwviz.engine import chance, fused, memory, partition
from mwviz.engine.layout import Layout
from mwviz.engine.model import MemoryShortageError, Model, memory_errors

Parameters = Sequence[torch.nn.Parameter]


class Made(NamedTuple):
    """What a forward pass gives."""

    loss: torch.Tensor
    """Scalar with its graph, in nats a target of the view."""
    kl: torch.Tensor
    """Scalar without: KL summed over what SDCC pulls, nats; NaN if nothing is."""


Run = Callable[[Layout, bool], Made]
"""From a row or a batch, and whether layers run again in the backward pass."""
Smaller = Callable[[], Iterator["RowLoss"]]
"""What is run in the place of a row that does not fit."""


class RowLoss:
    """The loss of one row, or of several that run together: it can be sent back once."""

    def __init__(
        self, part: Layout, model: Model, made: Made, smaller: Smaller, *, random: bool = False
    ) -> None:
        self.loss = made.loss.detach()
        """Scalar, in nats a target of the view."""
        self.kl = made.kl
        """Scalar: KL summed over what SDCC pulls, nats; NaN if nothing is."""
        self.notes: tuple[str, ...] = ()
        """What it was run as for lack of memory, in words; `backward` may add to it."""
        self._graph: torch.Tensor | None = made.loss
        self._part, self._model, self._smaller = part, model, smaller
        self._random = random
        """Whether its pass drew random numbers, which smaller pieces would not draw again."""

    def backward(self, scale: float = 1.0, *, into: Parameters | None = None) -> None:
        """Adds its gradient to the parameters.

        Where memory runs out on the way, it is run again: a row with layers that run twice, then
        as rows with fewer branches each, a batch as smaller ones. Not so where that could not give
        the same gradient: with layers on several devices or cut between processes, with dropout
        on, and with hooks that take gradients away (`register_post_accumulate_grad_hook`).

        Args:
            scale: Factor of the loss.
            into: The only parameters to get it; None for all.

        Raises:
            MemoryShortageError: It does not fit; gradients are then incomplete and to be zeroed.
        """
        graph, self._graph = self._graph, None
        assert graph is not None, "has been sent back before"
        missing = self._send(graph if scale == 1 else graph * scale, into)
        del graph  # what it holds must be free before anything is run again
        for part in self._smaller() if missing else ():
            part.backward(scale, into=missing)
            self.add(part.notes)

    def add(self, notes: Sequence[str]) -> None:
        """Notes that are not there yet."""
        self.notes = tuple(dict.fromkeys((*self.notes, *notes)))

    def _send(self, loss: torch.Tensor, into: Parameters | None) -> Parameters:
        """Sends it back; the parameters that it had not reached when memory ran out.

        Raises:
            MemoryShortageError: It ran out where pieces could not give the same gradient.
        """
        everywhere = into or [*self._model.module.parameters()]
        wanted = [part for part in everywhere if part.requires_grad]
        before = [_State.of(part) for part in wanted]
        kinds = (MemoryShortageError,) if self._resumes(wanted) else ()
        # Where processes share the layers' work, the library sums all that `.grad` holds.
        summed = wanted if fused.sharded(self._model.module) else ()
        with suppress(*kinds), memory_errors(self._model, len(self._part.ids)), _afresh(summed):
            torch.autograd.backward(loss, inputs=into)
            return []
        used = _used(loss)
        return [
            part
            for part, was in zip(wanted, before, strict=True)
            if was.holds(part) and (used is None or id(part) in used)
        ]

    def _resumes(self, wanted: Parameters) -> bool:
        """Whether it is known which parameters have their part, and the others can get the rest."""
        # Another process would wait in its backward pass for what this one runs forward.
        apart = self._model.spread or fused.sharded(self._model.module)
        taken = any(getattr(part, HOOKS, None) for part in wanted)
        return not (apart or taken or self._random)


HOOKS = "_post_accumulate_grad_hooks"
"""Of a parameter: what is called with its gradient, and may use it and drop it."""


@contextmanager
def _afresh(parts: Parameters) -> Iterator[None]:
    """Has a pass begin without gradients where hooks use them, and adds those of before."""
    before = {part: part.grad for part in parts if getattr(part, HOOKS, None)}
    for part in before:
        part.grad = None
    try:
        yield
    finally:
        for part, held in before.items():
            if held is not None:
                part.grad = held if part.grad is None else held + part.grad


def _used(loss: torch.Tensor) -> set[int] | None:
    """Identities of the parameters in a loss's graph: others, such as idle experts, get nothing.

    None where not all can be seen: a reentrant checkpoint makes its graph in the backward pass.
    """
    found, seen = set[int](), set[object]()
    waiting = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name().startswith("CheckpointFunction"):
            return None
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        waiting += [before for before, _place in node.next_functions]
    return found


class _State(NamedTuple):
    """Of a parameter's gradient: every term that is added changes it."""

    gradient: torch.Tensor | None
    version: int

    @classmethod
    def of(cls, part: torch.nn.Parameter) -> _State:
        return cls(part.grad, 0 if part.grad is None else part.grad._version)

    def holds(self, part: torch.nn.Parameter) -> bool:
        now = _State.of(part)
        return now.gradient is self.gradient and now.version == self.version


def row_losses(
    parts: Sequence[Layout], model: Model, run: Run, *, twice: bool = False
) -> Iterator[RowLoss]:
    """The loss of each row or batch, in smaller ones where a forward pass runs out of memory.

    Layers of a batch never run twice: smaller ones cost less.

    Args:
        parts: As `partition.fitting_parts` gives them.
        model: Runs them.
        run: Raises `MemoryShortageError` where a row does not fit.
        twice: Whether layers run twice in any case.

    Raises:
        MemoryShortageError: One does not fit and cannot be cut.
    """

    def made(part: Layout, *, again: bool) -> RowLoss:
        smaller = partial(_smaller, part, model, run, again=again)
        before = chance.state(model.device)
        found = run(part, again)
        random = chance.drawn(model.device, before)
        return RowLoss(part, model, found, smaller, random=random)

    def start(part: Layout) -> RowLoss:
        if part.lines is not None:
            return made(part, again=False)
        size = {"tokens": len(part.ids), "targets": len(part.edges.target)}
        if twice or memory.recomputes(model, **size):
            return made(part, again=True)
        # Once more outside the handler, whose traceback would hold on to the memory.
        with suppress(*partition.caught(model)):
            return made(part, again=False)
        found = made(part, again=True)
        found.add([_ran_twice(part, model)])
        return found

    for fitted in partition.fitting(parts, model, start):
        fitted.result.add(fitted.notes)
        yield fitted.result


def _smaller(part: Layout, model: Model, run: Run, *, again: bool) -> Iterator[RowLoss]:
    """What is run in the place of a row whose backward pass did not fit."""
    whole = part.lines is None and not again
    parts = [part] if whole else partition.halves(part, model)
    note = _ran_twice(part, model) if whole else partition.ran_as(part, len(parts), model)
    for found in row_losses(parts, model, run, twice=whole or again):
        found.add([note])
        yield found


def _ran_twice(part: Layout, model: Model) -> str:
    return f"{partition.shortage(part, model)}: its layers ran twice"
